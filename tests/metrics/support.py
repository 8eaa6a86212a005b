"""Scraping, with a parser that is not ours."""

import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass

from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families


@dataclass(frozen=True, slots=True)
class Scrape:
    families: dict[str, Metric]

    @classmethod
    def of_text(cls, text: str) -> "Scrape":
        return cls({family.name: family for family in text_string_to_metric_families(text)})

    @classmethod
    def of(cls, url: str) -> "Scrape":
        with urllib.request.urlopen(url, timeout=10) as answer:
            return cls.of_text(answer.read().decode())

    def value(self, name: str, **labels: str) -> float:
        """Of the one sample that has these labels, and perhaps more."""
        (found,) = [value for at, value in self.samples(name) if labels.items() <= at.items()]
        return found

    def samples(self, name: str) -> Iterator[tuple[dict[str, str], float]]:
        for family in self.families.values():
            for sample in family.samples:
                if sample.name == name:
                    yield sample.labels, sample.value

    @property
    def names(self) -> set[str]:
        """Of all samples, and of families without any."""
        written = {sample.name for family in self.families.values() for sample in family.samples}
        for family in self.families.values():
            if family.type == "counter":
                written.add(f"{family.name}_total")
            elif family.type == "histogram":
                written |= {f"{family.name}_{part}" for part in ("bucket", "sum", "count")}
            else:
                written.add(family.name)
        return written
