"""What the verification makes of what it reads."""

import json

import pytest

from fencepost.shop import DEAD_LETTERS, INVOICES, SHIPMENTS
from fencepost.shop.books import Books, Problem, Where
from fencepost.shop.expected import expected_invoice, expected_shipment, parse_purchase
from tests.unit.shop.bad_purchases import purchase

EVERYTHING = {0: 100}
NOTHING: dict[int, int] = {}


def value_of(topic: str, purchase_id: int) -> bytes:
    found = parse_purchase(purchase(purchaseId=str(purchase_id)))
    assert found is not None
    return json.dumps(expected_invoice(found) if topic == INVOICES else expected_shipment(found)).encode()


class Shop:
    """Books, and short words for what is entered in them."""

    def __init__(self) -> None:
        self.books = Books()

    def buy(self, *ids: int) -> None:
        for purchase_id in ids:
            self.books.purchase(purchase(purchaseId=str(purchase_id)), (0, purchase_id))

    def deliver(self, topic: str, *ids: int) -> None:
        for purchase_id in ids:
            self.books.output(Where(topic, 0, purchase_id), value_of(topic, purchase_id))

    def dead(self, offset: int, value: bytes | None = b"bad", **headers: bytes) -> None:
        given = {"error.topic": b"purchases", "error.partition": b"0", "error.offset": str(offset).encode()}
        given |= {"error.reason": b"it is bad"} | {name.replace("_", "."): text for name, text in headers.items()}
        self.books.output(Where(DEAD_LETTERS, 0, offset), value, given)

    def problems(self, committed: dict[int, int] = EVERYTHING, *, is_final: bool = True) -> dict[Problem, list[str]]:
        self.books.end_of_purchases()
        found = self.books.problems(committed, committed, EVERYTHING, is_final=is_final)
        return {problem: entry.first for problem, entry in found.items()}


@pytest.fixture
def shop() -> Shop:
    return Shop()


def test_nothing_is_wrong_when_every_purchase_has_both(shop: Shop):
    shop.buy(1, 2, 3)
    shop.deliver(INVOICES, 3, 1, 2)
    shop.deliver(SHIPMENTS, 1, 2, 3)
    assert shop.problems() == {}
    assert shop.books.open_count == 0


def test_outputs_may_be_read_before_their_purchases(shop: Shop):
    shop.deliver(INVOICES, 1)
    shop.deliver(SHIPMENTS, 1)
    shop.buy(1)
    assert shop.problems() == {}


@pytest.mark.parametrize("topic", [INVOICES, SHIPMENTS])
def test_half_of_an_order_is_torn_also_while_the_pipeline_runs(shop: Shop, topic: str):
    shop.buy(1, 2)
    shop.deliver(topic, 2)
    assert shop.problems({0: 2}, is_final=False)[Problem.TORN] == ["2"]


def test_a_purchase_that_waits_is_a_problem_only_in_the_end(shop: Shop):
    shop.buy(1)
    assert shop.problems(NOTHING, is_final=False) == {}
    assert shop.problems(NOTHING) == {Problem.NO_INVOICE_AND_SHIPMENT: ["1"]}


def test_a_purchase_that_the_group_has_passed_must_have_come_to_something(shop: Shop):
    shop.buy(1, 2)
    assert shop.problems({0: 2}, is_final=False) == {Problem.SKIPPED: ["1"]}


def test_nothing_may_come_of_a_purchase_that_the_group_has_not_passed(shop: Shop):
    shop.buy(1, 2)
    for topic in (INVOICES, SHIPMENTS):
        shop.deliver(topic, 1, 2)
    assert shop.problems({0: 2}) == {Problem.AHEAD: ["2"]}
    assert shop.problems({0: 3}) == {}


@pytest.mark.parametrize(("topic", "problem"), [(INVOICES, Problem.INVOICE_AGAIN), (SHIPMENTS, Problem.SHIPMENT_AGAIN)])
def test_a_second_one_is_seen(shop: Shop, topic: str, problem: Problem):
    shop.buy(1)
    for each in (INVOICES, SHIPMENTS, topic):
        shop.deliver(each, 1)
    assert shop.problems()[problem] == ["1"]


def test_two_purchases_of_one_id_have_two_of_each(shop: Shop):
    shop.buy(1, 1)
    for topic in (INVOICES, SHIPMENTS):
        shop.deliver(topic, 1, 1)
    assert shop.problems() == {}


@pytest.mark.parametrize(
    ("topic", "problem"), [(INVOICES, Problem.INVOICE_OF_NOTHING), (SHIPMENTS, Problem.SHIPMENT_OF_NOTHING)]
)
def test_what_nobody_ordered_is_seen(shop: Shop, topic: str, problem: Problem):
    shop.deliver(topic, 9)
    assert shop.problems() == {problem: [f"9 ({topic}-0 offset 9)"]}


def test_rubbish_in_an_output_topic_is_seen(shop: Shop):
    shop.books.output(Where(INVOICES, 0, 4), b"rubbish")
    assert shop.problems() == {Problem.INVOICE_OF_NOTHING: ["invoices-0 offset 4"]}


@pytest.mark.parametrize("change", [{"quantity": 2}, {"more": 1}, {"totalPrice": 1.51}])
def test_wrong_contents_are_seen(shop: Shop, change: dict[str, float]):
    shop.buy(1)
    shop.deliver(SHIPMENTS, 1)
    shop.books.output(Where(INVOICES, 0, 0), json.dumps({**json.loads(value_of(INVOICES, 1)), **change}).encode())
    assert shop.problems() == {Problem.INVOICE_WRONG: ["1"]}


def test_a_bad_purchase_has_exactly_one_dead_letter(shop: Shop):
    shop.books.purchase(b"bad", (0, 5))
    assert shop.problems() == {Problem.NO_DEAD_LETTER: ["purchases-0 offset 5"]}
    shop.dead(5)
    assert shop.problems() == {}
    shop.dead(5)
    assert shop.problems() == {Problem.DEAD_LETTER_AGAIN: ["purchases-0 offset 5"]}


def test_a_dead_letter_keeps_the_value_and_says_why(shop: Shop):
    shop.books.purchase(b"bad", (0, 5))
    shop.books.purchase(b"bad", (0, 6))
    shop.dead(5, b"another")
    shop.dead(6, error_reason=b"")
    assert [*shop.problems()] == [Problem.DEAD_LETTER_WRONG]
    assert shop.books.problems({}, EVERYTHING, EVERYTHING, is_final=True)[Problem.DEAD_LETTER_WRONG].count == 2


def test_a_dead_letter_of_a_good_purchase_is_seen(shop: Shop):
    shop.buy(1)
    for topic in (INVOICES, SHIPMENTS):
        shop.deliver(topic, 1)
    shop.dead(1)
    assert shop.problems() == {Problem.DEAD_LETTER_OF_NOTHING: ["purchases.dead-0 offset 1"]}


def test_an_offset_beyond_the_end_is_seen(shop: Shop):
    assert shop.problems({0: 101}) == {Problem.BEYOND: ["purchases-0: 101"]}


def test_only_the_first_few_are_named_and_all_are_counted(shop: Shop):
    shop.buy(*range(50))
    found = shop.books.problems(NOTHING, NOTHING, EVERYTHING, is_final=True)[Problem.NO_INVOICE_AND_SHIPMENT]
    assert (found.count, found.first) == (50, [str(n) for n in range(10)])
