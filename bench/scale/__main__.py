"""Scale: a model of a pipeline on a cluster, fitted to the curves of `bench.growth`, and what larger loads need.

    python -m bench.growth --json > curves.json
    python -m bench.scale curves.json              coefficients, check and needs
    python -m bench.scale curves.json --write      ... into docs/scale.md
    python -m bench.scale --measure --write        measure the curves first; about an hour, on a quiet machine
    python -m bench.scale curves.json --records-per-s 50000 --record-bytes 300 --interval 5

The time of a batch is fitted to `batch-size`, `record-size`, `output-partitions` and `input-partitions`, and checked
against `executors`, which the fit does not see.
"""

import argparse
import subprocess
import sys
from pathlib import Path

from bench.harness import page
from bench.harness.page import ROOT
from bench.harness.report import Cell, markdown_table
from bench.scale import model
from bench.scale.model import Coefficients, Line, Load
from bench.scale.observations import CHECKED, FITTED, OTHERS, Batch, Observations, documents, observed

PAGE = ROOT / "docs" / "scale.md"
BROKERS = {"fencepost": "our broker", "kafka": "Apache Kafka"}
FACTORS = (1, 10, 100)
#: For want of the `client` curve: one writer sends 500 MB/s.
USUAL_SEND_S_PER_GB = 2.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("curves", nargs="?", type=Path, metavar="FILE", help="what bench.growth --json printed")
    parser.add_argument("--measure", action="store_true", help="measure the curves, and keep them in FILE if given")
    parser.add_argument("--quick", action="store_true", help="with few and small points: to see that it runs")
    parser.add_argument("--write", action="store_true", help="put the tables into docs/scale.md")
    parser.add_argument("--records-per-s", type=float, default=20_000)
    parser.add_argument("--record-bytes", type=int, default=300)
    parser.add_argument("--interval", type=float, default=10.0, metavar="S", help="between batches")
    parser.add_argument("--partitions", type=int, default=12, help="of the input and of the output, at the least")
    options = parser.parse_args()
    if options.curves is None and not options.measure:
        parser.error("name the file with the curves, or --measure them")
    found = list(documents(_measured(options) if options.measure else options.curves.read_text()))
    sections: dict[str, list[str]] = {"scale-coefficients": [], "scale-check": [], "scale-needs": []}
    for broker, title in BROKERS.items():
        seen = observed(found, broker)
        fitted = [batch for batch in seen.batches if batch.curve in FITTED]
        if not fitted:
            continue
        try:
            of = model.fit(fitted)
        except ValueError as error:
            sys.exit(f"{title}: {error}; measure all of {', '.join(FITTED)}")
        sections["scale-coefficients"] += [f"On {title}:", "", *_coefficients(of, seen), ""]
        sections["scale-check"] += [f"On {title}:", "", *_check(of, seen), ""]
        sections["scale-needs"] += [f"On {title}:", "", *_needs(of, seen, options), ""]
    if not any(sections.values()):
        sys.exit(f"{options.curves} has none of the curves {', '.join(FITTED)}")
    for lines in sections.values():
        print("\n".join(lines))
    if options.write:
        page.write({name: "\n".join(lines) for name, lines in sections.items()}, {}, PAGE)


def _measured(options: argparse.Namespace) -> str:
    command = [sys.executable, "-m", "bench.growth", *FITTED, CHECKED, *OTHERS, "--json"]
    ran = subprocess.run(
        [*command, *(["--quick"] if options.quick else [])], stdout=subprocess.PIPE, check=True, text=True
    )
    if options.curves is not None:
        options.curves.write_text(ran.stdout)
    return ran.stdout


def _commit_line(seen: Observations) -> Line | None:
    return model.line(seen.commits) if len(seen.commits) > 1 else None


def _coefficients(of: Coefficients, seen: Observations) -> list[str]:
    rows: list[list[Cell]] = [
        ["`fixed_ms`", of.fixed_ms, "ms", "a batch, whatever is in it"],
        ["`input_ms`", of.input_ms, "ms", "an input partition"],
        ["`output_ms`", of.output_ms, "ms", "an output partition"],
        ["`record_us`", of.record_us, "µs of a core", "a record"],
        ["`byte_ns`", of.byte_ns, "ns of a core", "a byte"],
    ]
    if (commit := _commit_line(seen)) is not None:
        rows.append(["`commit_ms`", commit.base, "ms", "a commit until it is visible"])
        rows.append(["`marker_ms`", commit.slope, "ms", "... and each partition in it"])
    if seen.commit_cpu_ms is not None:
        rows.append(["`coordinator_ms`", seen.commit_cpu_ms, "ms of a core", "a commit, in the broker"])
    if seen.send_s_per_gb is not None:
        rows.append(["`send_s_per_gb`", seen.send_s_per_gb, "s", "a GB, by one writer"])
    return markdown_table(["coefficient", "value", "unit", "for"], rows)


def _check(of: Coefficients, seen: Observations) -> list[str]:
    rows: list[list[Cell]] = []
    for batch in seen.batches:
        told = model.batch_ms(of, batch)
        seen_by_fit = "no" if batch.curve == CHECKED else "yes"
        rows.append([batch.curve, _point(batch), seen_by_fit, batch.ms, told, told / batch.ms])
    return markdown_table(["curve", "point", "fitted", "measured, ms", "model, ms", "ratio"], rows)


def _point(batch: Batch) -> str:
    return (
        f"{batch.records:,.0f} × {batch.record_bytes:,} B, {batch.input_partitions} → {batch.output_partitions}, "
        f"{batch.cores} cores"
    )


def _needs(of: Coefficients, seen: Observations, options: argparse.Namespace) -> list[str]:
    commit = _commit_line(seen)
    send = seen.send_s_per_gb or USUAL_SEND_S_PER_GB
    rows: list[list[Cell]] = []
    for factor in FACTORS:
        load = Load(
            factor * options.records_per_s,
            options.record_bytes,
            options.interval,
            options.partitions,
            options.partitions,
        )
        needed = model.need(of, load, send)
        # Each core gets work only if there is an input partition for it, and a writer.
        partitions = max(options.partitions, needed.cores or 0, needed.writer_partitions)
        load = Load(load.records_per_s, load.record_bytes, load.interval_s, partitions, partitions)
        needed = model.need(of, load, send)
        rows.append(
            [
                f"× {factor}",
                f"{load.records_per_s:,.0f}",
                needed.shuffle_mb_per_s,
                partitions,
                "none is enough" if needed.cores is None else needed.cores,
                100 * needed.once_share,
                None if commit is None else commit.at(partitions),
            ]
        )
    columns = ["load", "records/s", "MB/s", "partitions", "executor cores", "once a batch, % of interval", "commit, ms"]
    return markdown_table(columns, rows)


if __name__ == "__main__":
    main()
