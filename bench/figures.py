"""Figures of a bench: named series of raw values, the conditions they were seen under, and the file that keeps both.

Every bench says what it measured in these terms; tables and plots are made from them (`page`, `plots`), never typed.
"""

from __future__ import annotations

import json
import os
import platform
import re
import statistics
import sys
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
_ARRAY = re.compile(r"\[[^][{}]*]")  # an innermost array


@dataclass(frozen=True, slots=True)
class Series:
    """Raw values of one thing that was measured, in the order in which they were seen."""

    name: str
    unit: str
    values: list[float]

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    def quantile(self, share: float) -> float:
        """The value that `share` (0 to 1) of all lie below; the nearest one that was seen."""
        ranked = sorted(self.values)
        return ranked[min(len(ranked) - 1, int(share * len(ranked)))]

    def __str__(self) -> str:
        """Median, and what the middle nine tenths spread over: `23.1 ms (21.0 to 26.4)`."""
        low, high = self.quantile(0.05), self.quantile(0.95)
        if len(self.values) == 1 or low == high:
            return f"{short(self.median)} {self.unit}"
        return f"{short(self.median)} {self.unit} ({short(low)} to {short(high)})"


def short(value: float) -> str:
    """Three digits that mean something: 0.123, 1.23, 12.3, 1,234."""
    for bound, digits in ((0.995, 3), (9.95, 2), (99.5, 1)):
        if abs(value) < bound:
            return f"{value:.{digits}f}"
    return f"{value:,.0f}"


def conditions() -> dict[str, Any]:
    """The machine and how busy it was, which a figure means nothing without."""
    return {
        "at": datetime.now().astimezone().isoformat(timespec="seconds"),
        "load": [round(load, 2) for load in os.getloadavg()],
        "cores": os.cpu_count(),
        "kernel": platform.release(),
        "python": platform.python_version(),
    }


def command(module: str) -> str:
    """The command that this run was asked by."""
    return " ".join([f"python -m bench.{module}", *sys.argv[1:]])


def save(
    bench: str, command: str, before: dict[str, Any], series: list[Series], **facts: Any
) -> Path:
    """Keep the raw figures of a bench as JSON; `before` are the conditions at its start."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{bench}.json"
    kept = {
        "bench": bench,
        "command": command,
        "before": before,
        "after": conditions(),
        "facts": facts,
        "series": [asdict(one) | {"values": [_rounded(v) for v in one.values]} for one in series],
    }
    path.write_text(_ARRAY.sub(_one_line, json.dumps(kept, indent=1)) + "\n")
    return path


def load(bench: str) -> tuple[dict[str, Any], dict[str, Series]]:
    """Read what a bench kept: everything, and its series by name; exits where it never ran here."""
    path = RESULTS / f"{bench}.json"
    if not path.exists():
        sys.exit(f"{path} is not there: run the bench first")
    kept = json.loads(path.read_text())
    return kept, {s["name"]: Series(s["name"], s["unit"], s["values"]) for s in kept["series"]}


def _rounded(value: float) -> float:
    return float(f"{value:.6g}")


def _one_line(array: re.Match[str]) -> str:
    return " ".join(array[0].split()).replace("[ ", "[").replace(" ]", "]")
