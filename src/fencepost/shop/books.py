"""The shop's books, filled by reading the topics: the orders, their results, and the problems.

Pure: records and committed offsets go in, problems come out. Invariants: an order is open until it has its invoice and
its shipment (a bad purchase: its dead letter). What more reading could resolve is not a problem yet.
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from fencepost.shop import DEAD_LETTERS, INVOICES, PURCHASES, SHIPMENTS
from fencepost.shop.expected import Purchase, expected_invoice, expected_shipment, parse_output, parse_purchase
from fencepost.shop.totals_book import TotalsBook

SHOWN_MAX = 10

Place = tuple[int, int]  #: a partition of `purchases` and an offset in it
Headers = Mapping[str, bytes | None]


class Where(NamedTuple):
    """An output record, to be named to people."""

    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} offset {self.offset}"


class Problem(enum.Enum):
    """What can be wrong, as it is printed before the ids."""

    TORN = "purchases with an invoice or a shipment, but not both"
    NO_INVOICE_AND_SHIPMENT = "purchases without invoice and shipment"
    NO_DEAD_LETTER = "bad purchases without a dead letter"
    INVOICE_AGAIN = "purchases with more than one invoice"
    SHIPMENT_AGAIN = "purchases with more than one shipment"
    DEAD_LETTER_AGAIN = "bad purchases with more than one dead letter"
    INVOICE_WRONG = "invoices whose contents are wrong"
    SHIPMENT_WRONG = "shipments whose contents are wrong"
    DEAD_LETTER_WRONG = "dead letters whose contents are wrong"
    INVOICE_OF_NOTHING = "invoices without a purchase"
    SHIPMENT_OF_NOTHING = "shipments without a purchase"
    DEAD_LETTER_OF_NOTHING = "dead letters without a bad purchase"
    SKIPPED = "purchases before the committed offset that were not processed"
    AHEAD = "purchases after the committed offset that were processed"
    BEYOND = "committed offsets beyond the end of their partition"
    TOTAL_WRONG = "totals that are not the sum of all purchases"


#: Problems that may disappear when more is read.
PASSING = frozenset(
    {
        Problem.TORN,
        Problem.NO_INVOICE_AND_SHIPMENT,
        Problem.NO_DEAD_LETTER,
        Problem.SKIPPED,
        Problem.AHEAD,
        Problem.TOTAL_WRONG,
    }
)


@dataclass(slots=True)
class Found:
    """One kind of problem: how often, and the first few."""

    count: int = 0
    first: list[str] = field(default_factory=list)

    def add(self, what: object) -> None:
        self.count += 1
        if len(self.first) < SHOWN_MAX:
            self.first.append(str(what))


@dataclass(slots=True)
class _Order:
    """A purchase id. Several purchases may have the same one; each needs an invoice and a shipment."""

    purchases: list[Purchase]
    place: Place
    invoices: int = 0
    shipments: int = 0

    @property
    def is_complete(self) -> bool:
        return self.invoices >= len(self.purchases) <= self.shipments


@dataclass(slots=True)
class _Bad:
    value: bytes | None
    dead_letters: int = 0


class Books:
    def __init__(self) -> None:
        self.counts = dict.fromkeys((PURCHASES, INVOICES, SHIPMENTS, DEAD_LETTERS), 0)
        self._orders: dict[int, _Order] = {}
        self.totals = TotalsBook()
        self._open: set[int] = set()
        self._bad: dict[Place, _Bad] = {}
        self._early: list[tuple[Where, bytes | None, Headers | None]] = []  #: read before their purchase
        self._lasting: dict[Problem, Found] = {}
        self._touched: set[int] = set()  #: orders with new outputs since the last look at the offsets

    # -- records -----------------------------------------------------------------------------------------------------

    def purchase(self, value: bytes | None, place: Place) -> None:
        self.counts[PURCHASES] += 1
        purchase = parse_purchase(value)
        if purchase is None:
            self._bad[place] = _Bad(value)
            return
        self.totals.purchase(purchase)
        order = self._orders.get(purchase.purchase_id)
        if order is None:
            self._orders[purchase.purchase_id] = _Order([purchase], place)
        else:
            order.purchases.append(purchase)
        self._open.add(purchase.purchase_id)

    def output(self, where: Where, value: bytes | None, headers: Headers | None = None) -> None:
        """An invoice, a shipment or a dead letter."""
        self.counts[where.topic] += 1
        if not self._enter(where, value, headers):
            self._early.append((where, value, headers))

    def end_of_purchases(self) -> None:
        """All purchases of the outputs have been read: an output without a purchase now will never have one."""
        early, self._early = self._early, []
        of_nothing = {
            INVOICES: Problem.INVOICE_OF_NOTHING,
            SHIPMENTS: Problem.SHIPMENT_OF_NOTHING,
            DEAD_LETTERS: Problem.DEAD_LETTER_OF_NOTHING,
        }
        for where, value, headers in early:
            if not self._enter(where, value, headers):
                fields = parse_output(value) if where.topic != DEAD_LETTERS else None
                self._note(of_nothing[where.topic], f"{fields['purchaseId']} ({where})" if fields else where)

    def _enter(self, where: Where, value: bytes | None, headers: Headers | None) -> bool:
        if where.topic == DEAD_LETTERS:
            return self._dead_letter(value, headers or {}, where)
        fields = parse_output(value)
        order = self._orders.get(fields["purchaseId"]) if fields else None
        if fields is None or order is None:
            return False
        purchase_id = fields["purchaseId"]
        if where.topic == INVOICES:
            order.invoices += 1
            self._check(order, fields, order.invoices, Problem.INVOICE_AGAIN, Problem.INVOICE_WRONG, expected_invoice)
        else:
            order.shipments += 1
            self._check(
                order, fields, order.shipments, Problem.SHIPMENT_AGAIN, Problem.SHIPMENT_WRONG, expected_shipment
            )
        self._touched.add(purchase_id)
        if order.is_complete:
            self._open.discard(purchase_id)
        return True

    def _check(
        self, order: _Order, fields: dict[str, Any], count: int, again: Problem, wrong: Problem, expected: Any
    ) -> None:
        if count == len(order.purchases) + 1:
            self._note(again, fields["purchaseId"])
        if fields != expected(order.purchases[0]) and all(fields != expected(other) for other in order.purchases[1:]):
            self._note(wrong, fields["purchaseId"])

    def _dead_letter(self, value: bytes | None, headers: Headers, where: Where) -> bool:
        place = _place(headers)
        bad = self._bad.get(place) if place is not None else None
        if bad is None:
            return False
        bad.dead_letters += 1
        if bad.dead_letters == 2:
            self._note(Problem.DEAD_LETTER_AGAIN, _name(place))
        if bad.value != value or not headers.get("error.reason"):
            self._note(Problem.DEAD_LETTER_WRONG, f"{_name(place)} ({where})")
        return True

    def _note(self, problem: Problem, what: object) -> None:
        self._lasting.setdefault(problem, Found()).add(what)

    # -- looking -----------------------------------------------------------------------------------------------------

    @property
    def bad_count(self) -> int:
        return len(self._bad)

    @property
    def open_count(self) -> int:
        """Purchases that are not completely processed."""
        return len(self._open) + sum(1 for bad in self._bad.values() if not bad.dead_letters)

    def problems(
        self, before: Mapping[int, int], after: Mapping[int, int], ends: Mapping[int, int], *, is_final: bool
    ) -> dict[Problem, Found]:
        """All problems, given the group's offsets before and after the outputs were read.

        While the pipeline runs (`is_final` is false), an unprocessed purchase is only a problem if it is before the
        group's committed offset.
        """
        found = {problem: Found(entry.count, [*entry.first]) for problem, entry in self._lasting.items()}

        def note(problem: Problem, what: object) -> None:
            found.setdefault(problem, Found()).add(what)

        for purchase_id in sorted(self._open):
            order = self._orders[purchase_id]
            if order.invoices != order.shipments:
                note(Problem.TORN, purchase_id)
            elif len(order.purchases) == 1 and _is_before(order.place, before):
                note(Problem.SKIPPED, purchase_id)
            elif is_final:
                note(Problem.NO_INVOICE_AND_SHIPMENT, purchase_id)
        for place, bad in self._bad.items():
            if bad.dead_letters and not _is_before(place, after):
                note(Problem.AHEAD, _name(place))
            elif not bad.dead_letters and (is_final or _is_before(place, before)):
                note(Problem.NO_DEAD_LETTER, _name(place))
        ahead = {
            purchase_id
            for purchase_id in self._touched
            if not _is_before(self._orders[purchase_id].place, after) and len(self._orders[purchase_id].purchases) == 1
        }
        for purchase_id in sorted(ahead):
            note(Problem.AHEAD, purchase_id)
        self._touched = ahead
        if is_final and not found:
            for wrong in self.totals.wrong():
                note(Problem.TOTAL_WRONG, wrong)
        for partition, offset in sorted(after.items()):
            if offset > ends.get(partition, 0):
                note(Problem.BEYOND, f"{PURCHASES}-{partition}: {offset}")
        return found


def _is_before(place: Place, offsets: Mapping[int, int]) -> bool:
    partition, offset = place
    return offset < offsets.get(partition, 0)


def _name(place: Place | None) -> str:
    return "?" if place is None else f"{PURCHASES}-{place[0]} offset {place[1]}"


def _place(headers: Headers) -> Place | None:
    """The place of the purchase, from a dead letter's headers."""
    try:
        if (headers["error.topic"] or b"").decode() != PURCHASES:
            return None
        return int(headers["error.partition"] or b""), int(headers["error.offset"] or b"")
    except (KeyError, ValueError):
        return None
