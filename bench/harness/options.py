"""The options that every bench has."""

import argparse
import signal
import sys

from bench.harness.brokers import Flush
from fencepost.security.names import Protocol

#: The most of each that a quick run takes.
QUICK = {"records": 200_000, "batch": 20_000, "commits": 10}

SECURED = [protocol for protocol in Protocol if protocol is not Protocol.PLAINTEXT]


def parser(description: str | None) -> argparse.ArgumentParser:
    # Told to end, a bench takes its brokers with it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    made = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument(
        "--brokers",
        nargs="+",
        choices=["fencepost", "kafka"],
        default=["fencepost", "kafka"],
        help="default: both, side by side",
    )
    made.add_argument("--repetitions", type=int, default=3, metavar="N", help="counted runs of each (default 3)")
    made.add_argument("--quick", action="store_true", help="one small run of each: an impression, not a measurement")
    made.add_argument("--json", action="store_true", help="print JSON, raw numbers included, instead of tables")
    made.add_argument("--save", action="store_true", help="append the tables to bench/results/")
    made.add_argument("--write", action="store_true", help="put tables and plots into docs/benchmarks.md")
    return made


def parse(made: argparse.ArgumentParser) -> argparse.Namespace:
    options = made.parse_args()
    if options.quick:
        options.repetitions = 1
        for name, most in QUICK.items():
            if hasattr(options, name):
                setattr(options, name, min(getattr(options, name), most))
    return options


def add_security(made: argparse.ArgumentParser) -> None:
    made.add_argument(
        "--security",
        type=Protocol,
        choices=SECURED,
        metavar="PROTOCOL",
        help=f"both brokers and all clients with {', '.join(SECURED)}; default: plaintext",
    )


def add_flush(made: argparse.ArgumentParser, default: list[str]) -> None:
    made.add_argument(
        "--flush",
        nargs="+",
        choices=[flush.name.lower() for flush in Flush],
        default=default,
        help=f"whether both brokers force every write to the disk (default: {' and '.join(default)})",
    )
