"""Purchases that are made."""

from fencepost.shop.expected import parse_purchase
from fencepost.shop.purchases import purchase_rows


def values(seed: int, first: int, count: int) -> list[bytes]:
    return [value.encode() for value in purchase_rows(seed, first, count).column("value").to_pylist()]


def test_every_purchase_is_a_good_one_and_has_its_own_id():
    found = [parse_purchase(value) for value in values(1, 1, 5000)]
    assert [purchase and purchase.purchase_id for purchase in found] == [*range(1, 5001)]


def test_a_purchase_is_the_same_however_many_are_made_around_it():
    assert values(7, 1, 1000)[500:600] == values(7, 501, 100)


def test_another_seed_makes_other_purchases():
    assert values(1, 1, 100) != values(2, 1, 100)


def test_a_user_has_one_name_and_is_the_key():
    rows = purchase_rows(1, 1, 20_000)
    names: dict[int, str] = {}
    for key, value in zip(rows.column("key").to_pylist(), rows.column("value").to_pylist(), strict=True):
        purchase = parse_purchase(value.encode())
        assert purchase is not None
        assert int(key) == purchase.user_id
        assert names.setdefault(purchase.user_id, purchase.user_full_name) == purchase.user_full_name
    assert len(names) > 5000
