"""The model finds the coefficients that made its points, and says what a load needs."""

import json

import pytest

from bench.growth.pipelines import Shape
from bench.scale import model
from bench.scale.model import Coefficients, Load
from bench.scale.observations import Batch, documents, observed

TRUE = Coefficients(fixed_ms=300, input_ms=2, output_ms=5, record_us=4, byte_ns=10)


def point(records=100_000, size=100, inputs=4, outputs=4, cores=2, curve="batch-size"):
    empty = Batch(curve, records, size, inputs, outputs, cores, 1)
    return Batch(curve, records, size, inputs, outputs, cores, model.batch_ms(TRUE, empty))


POINTS = [
    *(point(records) for records in (1_000, 10_000, 1_000_000)),
    *(point(32_000_000 // size, size) for size in (1_000, 10_000, 1_000_000)),
    *(point(inputs=count) for count in (1, 64)),
    *(point(outputs=count) for count in (1, 256)),
]


def test_the_fit_finds_the_coefficients_that_made_the_points():
    found = model.fit(POINTS)
    assert [getattr(found, name) for name in TRUE.__slots__] == pytest.approx(
        [getattr(TRUE, name) for name in TRUE.__slots__]
    )
    unseen = point(cores=4, inputs=12, outputs=12)
    assert model.batch_ms(found, unseen) == pytest.approx(unseen.ms)


def test_no_cost_is_negative_however_the_points_lie():
    noisy = [Batch(p.curve, p.records, p.record_bytes, 65 - p.input_partitions, 4, p.cores, p.ms) for p in POINTS]
    found = model.fit(noisy)
    assert min(getattr(found, name) for name in TRUE.__slots__) >= 0


def test_too_few_points_are_refused():
    with pytest.raises(ValueError, match="too few"):
        model.fit(POINTS[:4])


def test_cores_grow_with_the_load_until_the_part_that_happens_once_takes_the_interval():
    def needed(factor, partitions=12):
        return model.need(TRUE, Load(factor * 20_000, 300, 10.0, partitions, partitions), 2.0)

    large, larger = needed(100), needed(1_000)
    assert large.cores == 19 and larger.cores == 184
    assert large.once_share == pytest.approx((300 + 7 * 12) / 10_000)
    assert needed(1, partitions=1_200).cores is None  # 8.7 s of 10 s


def test_a_line_through_points_of_any_size():
    assert model.line([(x, 3 + 0.05 * x) for x in (1, 100, 1_000)]) == model.Line(pytest.approx(3), pytest.approx(0.05))


def test_curves_are_read_from_what_the_growth_bench_prints():
    shape = {"cores": 2, "record_bytes": 100, "input_partitions": 4, "output_partitions": 4}
    assert shape.keys() == set(Shape.__slots__)
    batches = [{"ms": ms, "rows": 10} for ms in (5, 7, 100)]
    spark = {"curve": "batch-size", "x": 10, "shape": shape, "batches": batches}
    text = "\n".join(
        json.dumps({"name": "growth", "raw": raw}, indent=2)
        for raw in (
            [
                {**spark, "broker": kind, "system": system}
                for kind in ("fencepost", "kafka")
                for system in ("fencepost", "spark")
            ],
            [
                {
                    "curve": "commit-partitions",
                    "broker": "kafka",
                    "x": 3,
                    "call_and_visible_ms": [[1, 2], [1, 4], [1, 3]],
                }
            ],
            [{"curve": "producers", "broker": "kafka", "producers": n, "cpu_ms": n / 100} for n in (10, 100)],
            [{"curve": "client", "broker": "kafka", "bytes": n, "runs": [{"send": n / 1000}]} for n in (100, 900)],
        )
    )
    seen = observed(documents(text), "kafka")
    assert seen.batches == [Batch("batch-size", 10, 100, 4, 4, 2, 7)]
    assert (seen.commits, seen.commit_cpu_ms, seen.send_s_per_gb) == ([(3, 3)], 1.0, 0.9)
    assert observed(documents(text), "fencepost").commits == []
