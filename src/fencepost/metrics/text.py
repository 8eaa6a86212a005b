"""Writes Prometheus' text format, version 0.0.4.

Invariants: a family has its HELP and TYPE once, in front of its samples; a counter's name ends in `_total`; a
histogram's buckets grow, and the last one equals its count. `tests/metrics` reads the text with a parser that is not
ours.
"""

from collections.abc import Iterable, Mapping

from fencepost.errors import InvariantBroken
from fencepost.metrics.histogram import NS_PER_S, Histogram

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Labels = Mapping[str, str]
Samples = float | Iterable[tuple[Labels, float]]  #: one value, or one for each set of labels

_IN_LABELS = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
_IN_HELP = str.maketrans({"\\": r"\\", "\n": r"\n"})


class Exposition:
    """One page of metrics, written family by family."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._families: set[str] = set()

    def counter(self, name: str, help_text: str, samples: Samples) -> None:
        if not name.endswith("_total"):
            raise InvariantBroken(f"the name of counter {name} does not end in _total")
        self._family(name, "counter", help_text, samples)

    def gauge(self, name: str, help_text: str, samples: Samples) -> None:
        self._family(name, "gauge", help_text, samples)

    def histogram(self, name: str, help_text: str, samples: Histogram | Iterable[tuple[Labels, Histogram]]) -> None:
        self._head(name, "histogram", help_text)
        for labels, histogram in [({}, samples)] if isinstance(samples, Histogram) else samples:
            below = 0
            for bound_s, count in zip((*histogram.bounds_s, None), histogram.counts, strict=True):
                below += count
                limit = "+Inf" if bound_s is None else _number(bound_s)
                self._lines.append(f"{name}_bucket{_labels({**labels, 'le': limit})} {below}")
            self._lines.append(f"{name}_sum{_labels(labels)} {_number(histogram.total_ns / NS_PER_S)}")
            self._lines.append(f"{name}_count{_labels(labels)} {below}")

    def text(self) -> str:
        return "\n".join([*self._lines, ""])

    def _family(self, name: str, kind: str, help_text: str, samples: Samples) -> None:
        self._head(name, kind, help_text)
        for labels, value in [({}, samples)] if isinstance(samples, int | float) else samples:
            self._lines.append(f"{name}{_labels(labels)} {_number(value)}")

    def _head(self, name: str, kind: str, help_text: str) -> None:
        if name in self._families:
            raise InvariantBroken(f"metric {name} is written twice")
        self._families.add(name)
        self._lines += [f"# HELP {name} {help_text.translate(_IN_HELP)}", f"# TYPE {name} {kind}"]


def _labels(labels: Labels) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{value.translate(_IN_LABELS)}"' for name, value in labels.items()) + "}"


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) else repr(value)
