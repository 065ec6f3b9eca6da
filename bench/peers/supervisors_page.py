"""The part `peers` of docs/performance.md: tables, plots and the sentences that say where another is better than clew.

It knows only what was found, by measure and supervisor; it starts and measures nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from bench import page
from bench.figures import Series, short

CLEW, BUILT_IN = "clew", "clew-built-in"
BACK = {
    "restart, tiny": "a bare child",
    "again at once": "killed again at once",
    "restart, loaded": "a loaded child",
    "mass restart": "the whole fleet",
}
IDLE = {
    "own memory, none": "memory, no children",
    "own memory, fleet": "memory, the fleet",
    "idle CPU": "CPU",
    "idle wake-ups": "wake-ups",
    "memory of a child": "memory of a child",
}
UNITS = {
    **dict.fromkeys(BACK, "ms"),
    **dict.fromkeys(IDLE, "MB"),
    "idle CPU": "% of a core",
    "idle wake-ups": "/s",
    "start of the fleet": "s",
}
FATES = (
    "a worker's child, the worker killed",
    "workers, the supervisor killed",
    "their children, the supervisor killed",
    "one that prints, the supervisor killed",
    "restarted after that",
    "a worker, its watcher killed",
)
PLOTS = {
    "restart, tiny": "A bare child, killed: ready again after",
    "restart, loaded": "A loaded child, killed: ready again after",
    "mass restart": "The whole fleet, killed at once: all ready again after",
}
CLEARLY = 1.1
"""A median counts as another one only where it differs by more than a tenth: these machines are noisy."""


@dataclass(slots=True)
class Found:
    """What a run found: names and versions by key, values by measure and key, facts by key, and who was left out."""

    names: dict[str, str]
    versions: dict[str, str]
    settings: dict[str, str]
    values: dict[str, dict[str, list[float]]]
    facts: dict[str, dict[str, object]]
    fleet: int
    out: dict[str, str] = field(default_factory=dict)

    def series(self, measure: str, key: str) -> Series | None:
        """One supervisor's values; None where it was not measured."""
        values = self.values.get(measure, {}).get(key)
        return Series(self.names[key], UNITS[measure], list(values)) if values else None

    def all(self) -> list[Series]:
        """Everything, under names that say what and whose."""
        return [
            Series(f"{measure}: {self.names[key]}", UNITS[measure], list(values))
            for measure, by_key in self.values.items()
            for key, values in by_key.items()
        ]


def text(found: Found, source: str) -> str:
    """The whole part; `source` says how the figures were had."""
    images = [f"![{title}](performance/{_file(measure)}.svg)" for measure, title in PLOTS.items()]
    left_out = [
        f"Not measured: {found.names.get(k, k)} ({why})." for k, why in sorted(found.out.items())
    ]
    parts = [
        source,
        f"Until a child that was killed is ready again ({_counts(found)}; a fleet is {found.fleet}):",
        _values(found, BACK),
        *images,
        "\n".join(others_better(found, BACK)),
        f"Idle ({found.fleet} idle children and eight more; a supervisor's own processes, each child's memory apart):",
        _values(found, IDLE),
        "\n".join(others_better(found, IDLE)),
        "What becomes of a worker, and of what it started, when somebody is killed:",
        _fates(found),
        "What each was told:",
        _told(found),
        *left_out,
    ]
    return "\n\n".join(part for part in parts if part)


def tables(found: Found) -> str:
    """The tables alone, for a terminal."""
    return "\n\n".join([_values(found, BACK), _values(found, IDLE), _fates(found)])


def draw(found: Found) -> None:
    """Plot every value."""
    from bench import plots

    for measure, title in PLOTS.items():
        series = [one for key in found.names if (one := found.series(measure, key))]
        if series:
            plots.dots(_file(measure), title, series)


def others_better(found: Found, measures: dict[str, str]) -> list[str]:
    """Say for each measure who does clearly better than clew, by the medians."""
    lines = []
    for measure, label in measures.items():
        seen = {key: one for key in found.names if (one := found.series(measure, key))}
        ours = [seen.pop(key) for key in (CLEW, BUILT_IN) if key in seen]
        if not ours or not seen:
            continue
        # the nursery has the same to do as the others only where their children are loaded
        best = min(ours, key=lambda one: one.median) if measure == "restart, loaded" else ours[0]
        others = [one for one in seen.values() if one.median * CLEARLY < best.median]
        if others:
            ranked = sorted(others, key=lambda one: one.median)
            names = ", ".join(f"{one.name} ({short(one.median)})" for one in ranked)
            unit = f"{short(best.median)} {best.unit}"
            lines.append(f"- {label}: better than clew ({unit}) are {names}.")
        else:
            lines.append(f"- {label}: nobody is clearly better than clew.")
    return lines


def _values(found: Found, measures: dict[str, str]) -> str:
    head = ["", *(f"{label}, {UNITS[measure]}" for measure, label in measures.items())]
    rows = []
    for key, name in found.names.items():
        cells = [_cell(found.series(measure, key)) for measure in measures]
        rows.append([name, *cells])
    return page.table(head, rows)


def _cell(series: Series | None) -> str:
    """A series without its unit, which stands in the head."""
    return str(series).replace(f" {series.unit}", "", 1) if series else ""


def _fates(found: Found) -> str:
    rows = [
        [name, *(found.facts.get(key, {}).get(fact, "") for fact in FATES)]
        for key, name in found.names.items()
        if FATES[0] in found.facts.get(key, {})
    ]
    return page.table(["", *FATES], rows)


def _told(found: Found) -> str:
    rows = [
        [f"{name} {found.versions[key]}", found.settings[key]] for key, name in found.names.items()
    ]
    return page.table(["", "keeps a child up by"], rows)


def _counts(found: Found) -> str:
    """How many values there are, by what was measured."""
    counts = ((label, [len(values) for values in _of(found, m)]) for m, label in BACK.items())
    return "values: " + "; ".join(f"{label} {_span(each)}" for label, each in counts)


def _of(found: Found, measure: str) -> list[list[float]]:
    return list(found.values.get(measure, {}).values())


def _span(counts: list[int]) -> str:
    low, high = min(counts, default=0), max(counts, default=0)
    return str(low) if low == high else f"{low} to {high}"


def _file(measure: str) -> str:
    return "supervisors-" + measure.replace(", ", "-").replace(" ", "-")
