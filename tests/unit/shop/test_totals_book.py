"""Sums over purchases, beside the totals that a pipeline wrote."""

from fencepost.shop import CUSTOMERS, PRODUCTS
from fencepost.shop.expected import Purchase
from fencepost.shop.totals_book import TotalsBook


def book() -> TotalsBook:
    made = TotalsBook()
    made.purchase(Purchase(1, 7, "Ann", 3, 2, 10.10))
    made.purchase(Purchase(2, 7, "Ann", 4, 1, 0.2))
    made.purchase(Purchase(3, 8, "Bob", 3, 5, 0.125))
    return made


def write_all(made: TotalsBook) -> None:
    made.output(CUSTOMERS, b'{"userId":7,"purchases":1,"amount":10.1}')
    made.output(CUSTOMERS, b'{"userId":7,"purchases":2,"amount":10.3}')
    made.output(CUSTOMERS, b'{"userId":8,"purchases":1,"amount":0.13}')
    made.output(PRODUCTS, b'{"productId":3,"sold":7,"revenue":10.23}')
    made.output(PRODUCTS, b'{"productId":4,"sold":1,"revenue":0.2}')


def test_the_last_total_of_each_key_must_be_the_sum_of_its_purchases() -> None:
    made = book()
    write_all(made)
    assert list(made.wrong()) == []


def test_a_total_that_counted_twice_missed_or_made_up_something_is_found() -> None:
    made = book()
    write_all(made)
    made.output(CUSTOMERS, b'{"userId":8,"purchases":2,"amount":0.26}')
    made.output(PRODUCTS, b'{"productId":9,"sold":1,"revenue":1.0}')
    assert list(made.wrong()) == [
        "userId 8: 2 for 0.26, expected 1 for 0.13",
        "productId 9: 1 for 1.00, expected nothing",
    ]


def test_a_record_that_is_no_total_is_found() -> None:
    made = book()
    write_all(made)
    made.output(CUSTOMERS, b"null")
    assert list(made.wrong()) == ["userId -1: 0 for 0.00, expected nothing"]


def test_a_pipeline_without_totals_is_not_blamed_for_having_none() -> None:
    assert list(book().wrong()) == []
