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
_INNER_ARRAY = re.compile(r"\[[^][{}]*]")


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

    @property
    def bare(self) -> str:
        """The same without the unit."""
        return str(self).replace(f" {self.unit}", "", 1)


Kept = tuple[dict[str, Any], dict[str, Series]]
"""What a bench saved (command, conditions, facts), and its series by name."""


class Recorder:
    """Collects series by name."""

    def __init__(self) -> None:
        self.series: dict[str, Series] = {}

    def add(self, name: str, unit: str, *values: float) -> None:
        self.series.setdefault(name, Series(name, unit, [])).values.extend(values)

    def time(self, name: str, call: Callable[[], Any]) -> Any:
        """Call it, and add its milliseconds."""
        began = time.perf_counter()
        result = call()
        self.add(name, "ms", (time.perf_counter() - began) * 1e3)
        return result


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


def command(module: str) -> str:
    return " ".join([f"python -m bench.{module}", *sys.argv[1:]])


def save(
    bench: str, command: str, before: dict[str, Any], series: list[Series], **facts: Any
) -> Kept:
    """Write the raw figures of a bench, and return them as `load` does."""
    RESULTS.mkdir(exist_ok=True)
    kept = {
        "bench": bench,
        "command": command,
        "before": before,
        "after": conditions(),
        "facts": facts,
        "series": [asdict(s) | {"values": [float(f"{v:.6g}") for v in s.values]} for s in series],
    }
    text = _INNER_ARRAY.sub(_on_one_line, json.dumps(kept, indent=1))
    (RESULTS / f"{bench}.json").write_text(text + "\n")
    return load(bench)


def load(bench: str) -> Kept:
    path = RESULTS / f"{bench}.json"
    if not path.exists():
        sys.exit(f"{path} does not exist: run the bench first")
    kept = json.loads(path.read_text())
    return kept, {s["name"]: Series(s["name"], s["unit"], s["values"]) for s in kept["series"]}


def _on_one_line(array: re.Match[str]) -> str:
    return " ".join(array[0].split()).replace("[ ", "[").replace(" ]", "]")
