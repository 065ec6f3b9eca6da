"""Figures of a bench: named series of raw values, their conditions, and the JSON files that hold both."""

import json
import os
import platform
import re
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True, slots=True)
class Series:
    """Raw values of one measurement, in the order in which they were seen."""

    name: str
    unit: str
    values: list[float]

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    def quantile(self, share: float) -> float:
        ranked = sorted(self.values)
        return ranked[min(len(ranked) - 1, int(share * len(ranked)))]

    def __str__(self) -> str:
        """Median, and the spread of the middle nine tenths: `23.1 ms (21.0 to 26.4)`."""
        low, high = self.quantile(0.05), self.quantile(0.95)
        spread = f" ({short(low)} to {short(high)})" if low != high else ""
        return f"{short(self.median)} {self.unit}{spread}"


class Recorder(dict[str, Series]):
    """Collects series by name."""

    def add(self, name: str, unit: str, *values: float) -> None:
        self.setdefault(name, Series(name, unit, [])).values.extend(values)

    def time(self, name: str, call: Callable[[], Any]) -> Any:
        """Call it, and add its milliseconds."""
        began = time.perf_counter()
        result = call()
        self.add(name, "ms", (time.perf_counter() - began) * 1e3)
        return result


@dataclass(frozen=True, slots=True)
class Result:
    """What a run of a bench found, and its command and conditions."""

    command: str
    before: dict[str, Any]
    after: dict[str, Any]
    facts: dict[str, Any]
    series: dict[str, Series]

    @property
    def source(self) -> str:
        """One sentence on how the figures were measured."""
        before = self.before
        return (
            f"`{self.command}`, {before['at'][:10]}: {before['cores']} cores, Linux {before['kernel']},"
            f" Python {before['python']}; load {before['load'][0]} before, {self.after['load'][0]} after."
        )


def short(value: float) -> str:
    """Three significant digits: 0.123, 1.23, 12.3, 1,234."""
    for bound, digits in ((0.995, 3), (9.95, 2), (99.5, 1)):
        if abs(value) < bound:
            return f"{value:.{digits}f}"
    return f"{value:,.0f}"


def conditions() -> dict[str, Any]:
    """The machine and its load, without which a figure means nothing."""
    return {
        "at": datetime.now().astimezone().isoformat(timespec="seconds"),
        "load": [round(load, 2) for load in os.getloadavg()],
        "cores": os.cpu_count(),
        "kernel": platform.release(),
        "python": platform.python_version(),
    }


def save(bench: str, result: Result) -> None:
    RESULTS.mkdir(exist_ok=True)
    series = [
        asdict(one) | {"values": [float(f"{value:.6g}") for value in one.values]}
        for one in result.series.values()
    ]
    text = json.dumps({"bench": bench, **asdict(result), "series": series}, indent=1)
    text = re.sub(r"\[[^][{}]*]", _on_one_line, text)
    (RESULTS / f"{bench}.json").write_text(text + "\n")


def load(bench: str) -> Result:
    path = RESULTS / f"{bench}.json"
    if not path.exists():
        sys.exit(f"{path} does not exist: run the bench first")
    saved = json.loads(path.read_text())
    del saved["bench"]
    series = {one["name"]: Series(**one) for one in saved.pop("series")}
    return Result(**saved, series=series)


def _on_one_line(array: re.Match[str]) -> str:
    return " ".join(array[0].split()).replace("[ ", "[").replace(" ]", "]")
