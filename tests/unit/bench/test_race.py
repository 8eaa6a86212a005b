"""The referees of a race: what must be written, whether it was, and when it was visible."""

import contextlib
import json

import numpy as np
import pyarrow as pa
import pytest

from bench.race import compare, expected, outputs
from bench.race import input as race_input
from bench.race.clock import NotFinished, Sample
from bench.race.compare import OutputsDiffer
from bench.race.window import window
from fencepost.shop import DEAD_LETTERS, INVOICES, SHIPMENTS
from fencepost.shop import expected as shop
from fencepost.wire.terms import TopicPartition

COUNT = 30_000
WHERE = TopicPartition("invoices", 0)
OTHER = TopicPartition("shipments", 0)


@pytest.fixture(scope="module")
def purchases():
    rows = race_input.rows(0, COUNT)
    return pa.table(
        {
            "key": rows.column("key").cast(pa.binary()),
            "value": rows.column("value").cast(pa.binary()),
            "topic": pa.repeat("purchases", COUNT),
            "partition": pa.repeat(pa.scalar(3, pa.int32()), COUNT),
            "offset": pa.array(range(COUNT)),
        }
    )


@pytest.fixture(scope="module")
def made(purchases):
    return expected.shop_outputs(purchases)


# -- what must be written ---------------------------------------------------------------------------------------------


def test_one_purchase_in_a_thousand_is_bad_in_every_way_and_no_other(purchases):
    parsed = [shop.parse_purchase(value) for value in purchases.column("value").to_pylist()]
    bad = [index for index, purchase in enumerate(parsed) if purchase is None]
    assert bad == [*range(500, COUNT, 1000)]
    assert len(bad) > len(race_input.SPOILERS)


def test_purchases_are_the_same_however_many_are_made_at_once():
    whole = race_input.rows(0, 3000).column("value").to_pylist()
    assert race_input.rows(1000, 700).column("value").to_pylist() == whole[1000:1700]


def test_invoices_and_shipments_are_those_of_the_shop(purchases, made):
    good = [found for value in purchases.column("value").to_pylist() if (found := shop.parse_purchase(value))]
    invoices = [json.loads(value) for value in made[INVOICES].column("value").to_pylist()]
    shipments = [json.loads(value) for value in made[SHIPMENTS].column("value").to_pylist()]
    assert invoices == [shop.expected_invoice(purchase) for purchase in good]
    assert shipments == [shop.expected_shipment(purchase) for purchase in good]
    assert made[INVOICES].column("key").to_pylist() == [b"%d" % purchase.purchase_id for purchase in good]


def test_a_price_is_written_as_java_writes_a_double(purchases, made):
    values = made[INVOICES].column("value").to_pylist()
    assert all(value.endswith(b":%s}" % repr(json.loads(value)["totalPrice"]).encode()) for value in values)


def test_a_dead_letter_is_the_purchase_with_the_reason_and_its_place(made):
    letter = made[DEAD_LETTERS].to_pylist()[0]
    assert json.loads(letter["value"])["quantity"] == 0
    assert {header["key"]: header["value"] for header in letter["headers"]} == {
        "error.reason": b"quantity is missing or not a whole number from 1 on",
        "error.topic": b"purchases",
        "error.partition": b"3",
        "error.offset": b"500",
    }


def test_a_reason_is_told_exactly_for_what_the_shop_refuses(purchases):
    for value in purchases.column("value").to_pylist():
        assert (expected.reason(value) is None) == (shop.parse_purchase(value) is not None)


def test_totals_count_every_purchase_with_id_and_price(purchases):
    counts, cents = {}, {}
    for value in purchases.column("value").to_pylist():
        try:
            fields = json.loads(value or b"")
            price, user = fields["totalPrice"], fields["purchaseId"] % 70
        except (ValueError, KeyError):
            continue
        if 0 <= price <= 1e9:
            counts[user] = counts.get(user, 0) + 1
            cents[user] = cents.get(user, 0) + round(price * 100)
    found = {int(key): json.loads(value) for key, value in expected.totals(purchases, 70).items()}
    assert found == {
        user: {"user": str(user), "purchases": count, "cents": cents[user]} for user, count in counts.items()
    }


# -- whether it was ---------------------------------------------------------------------------------------------------


def shuffled(table):
    return table.take(pa.array(np.random.default_rng(1).permutation(len(table))))


def changed(table, row, **columns):
    rows = table.to_pylist()
    rows[row] |= columns
    return pa.Table.from_pylist(rows, table.schema)


@pytest.mark.parametrize("topic", [INVOICES, SHIPMENTS, DEAD_LETTERS])
def test_the_same_records_in_another_order_are_the_same(made, topic):
    compare.same_records(topic, made[topic], shuffled(made[topic]))


@pytest.mark.parametrize("topic", [INVOICES, SHIPMENTS, DEAD_LETTERS])
@pytest.mark.parametrize("columns", [{"key": b"x"}, {"value": b'{"purchaseId": 7}'}, {"value": b""}])
def test_one_other_byte_is_a_difference(made, topic, columns):
    with pytest.raises(OutputsDiffer, match=topic):
        compare.same_records(topic, made[topic], changed(made[topic], 11, **columns))


def test_a_record_twice_in_place_of_another_is_a_difference(made):
    twice = changed(made[INVOICES], 11, **made[INVOICES].to_pylist()[12])
    with pytest.raises(OutputsDiffer):
        compare.same_records(INVOICES, made[INVOICES], twice)


def test_a_record_too_few_and_one_too_many_are_differences(made):
    for found in (made[INVOICES].slice(1), pa.concat_tables([made[INVOICES], made[INVOICES].slice(0, 1)])):
        with pytest.raises(OutputsDiffer, match="records instead of"):
            compare.same_records(INVOICES, made[INVOICES], found)


def test_other_headers_are_a_difference(made):
    other = changed(made[DEAD_LETTERS], 4, headers=[{"key": "error.reason", "value": b"none"}])
    with pytest.raises(OutputsDiffer):
        compare.same_records(DEAD_LETTERS, made[DEAD_LETTERS], other)


@pytest.mark.parametrize(("said", "is_same"), [(b"something else", True), (b"", False)])
def test_the_reason_may_be_worded_differently_but_must_be_there(made, said, is_same):
    letters = made[DEAD_LETTERS]
    headers = letters.to_pylist()[4]["headers"]
    other = changed(letters, 4, headers=[{"key": "error.reason", "value": said}, *headers[1:]])
    with contextlib.nullcontext() if is_same else pytest.raises(OutputsDiffer):
        compare.same_records(DEAD_LETTERS, letters, other)


def test_another_place_of_a_dead_letter_is_a_difference(made):
    headers = made[DEAD_LETTERS].to_pylist()[4]["headers"]
    other = changed(made[DEAD_LETTERS], 4, headers=[*headers[:-1], {"key": "error.offset", "value": b"1"}])
    with pytest.raises(OutputsDiffer):
        compare.same_records(DEAD_LETTERS, made[DEAD_LETTERS], other)


def test_a_value_of_nothing_is_not_an_empty_value(made):
    letters = made[DEAD_LETTERS].to_pylist()
    index = next(index for index, letter in enumerate(letters) if letter["value"] is None)
    with pytest.raises(OutputsDiffer):
        compare.same_records(DEAD_LETTERS, made[DEAD_LETTERS], changed(made[DEAD_LETTERS], index, value=b""))


def test_last_values_differ_by_a_key_or_a_value():
    wanted = {b"1": b"a", b"2": b"b"}
    compare.same_last_values("totals", wanted, dict(wanted))
    for found in ({b"1": b"a"}, {**wanted, b"3": b"c"}, {b"1": b"a", b"2": b"c"}):
        with pytest.raises(OutputsDiffer, match="totals"):
            compare.same_last_values("totals", wanted, found)


# -- when it was visible ----------------------------------------------------------------------------------------------


def table(topic, offsets, keys=None):
    count = len(offsets)
    return pa.table(
        {
            "key": pa.array(keys or [b""] * count, pa.binary()),
            "topic": pa.repeat(topic, count),
            "partition": pa.repeat(pa.scalar(0, pa.int32()), count),
            "offset": pa.array(offsets, pa.int64()),
        }
    )


def sample(time_s, invoices, shipments=0, cpu_s=None):
    ends = {WHERE: invoices, OTHER: shipments}
    return Sample(time_s, ends, cpu_s or {"JVM": time_s, "broker": time_s / 2}, 3 * time_s, time_s / 4)


def test_markers_of_transactions_are_not_counted():
    weights = outputs.record_weights([(table("invoices", [0, 1, 3, 4]), 1.0)])
    assert [weights[WHERE].before(end) for end in range(7)] == [0, 1, 2, 2, 3, 4, 4]


def test_a_running_count_stands_for_what_it_grew_by():
    found = outputs.count_weights(table("invoices", [0, 1, 5, 6], [b"a", b"b", b"a", b"a"]), np.array([2, 1, 2, 7]))
    assert [found[WHERE].before(end) for end in (0, 1, 2, 6, 7)] == [0, 2, 3, 3, 8]


def test_the_rate_is_from_the_end_of_the_warm_up_to_the_last_record():
    weights = outputs.record_weights([(table("invoices", range(90)), 0.5), (table("shipments", range(90)), 0.5)])
    samples = [
        sample(0, 0),
        sample(10, 30, 20),  # 25 of 90: not warm
        sample(12, 60, 60),
        sample(13, 75, 75),
        sample(15, 90, 88),
        sample(17, 90, 90),
        sample(99, 90, 91),  # a marker
    ]
    found = window(samples, weights, 90, 1 / 3)
    assert (found.records, found.seconds, found.rate) == (30, 5, 6)
    assert found.cpu_s == {"JVM": 5, "broker": 2.5}
    assert found.cpu_s_per_million("broker") == pytest.approx(2.5 / 30 * 1e6)
    assert found.others_cores == pytest.approx((15 - 7.5) / 5)
    assert found.compilers_s_per_million == pytest.approx(5 / 4 / 30 * 1e6)
    assert found.drift == pytest.approx((15 / 4) / (15 / 1))


def test_work_that_is_not_done_has_no_rate():
    weights = outputs.record_weights([(table("invoices", range(90)), 1.0)])
    with pytest.raises(NotFinished, match="89 of 90"):
        window([sample(0, 40), sample(1, 89)], weights, 90, 0.3)


def test_one_batch_with_everything_has_no_rate():
    weights = outputs.record_weights([(table("invoices", range(90)), 1.0)])
    with pytest.raises(NotFinished, match="at once"):
        window([sample(0, 0), sample(1, 90)], weights, 90, 0.3)
