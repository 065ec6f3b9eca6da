"""The part `peers` of docs/performance.md: tables, plots, and sentences that name who is better than clew."""

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
"""Medians that differ by less than a tenth count as equal: these machines are noisy."""


@dataclass(slots=True)
class Found:
    """What a run found by key of the supervisor, values by measure first, and who was left out."""

    names: dict[str, str]
    versions: dict[str, str]
    settings: dict[str, str]
    values: dict[str, dict[str, list[float]]]
    facts: dict[str, dict[str, object]]
    fleet: int
    out: dict[str, str] = field(default_factory=dict)

    def series(self, measure: str, key: str) -> Series | None:
        values = self.values.get(measure, {}).get(key)
        return Series(self.names[key], UNITS[measure], list(values)) if values else None

    def all(self) -> list[Series]:
        return [
            Series(f"{measure}: {self.names[key]}", UNITS[measure], list(values))
            for measure, by_key in self.values.items()
            for key, values in by_key.items()
        ]


def text(found: Found, source: str) -> str:
    """Return the whole part; `source` says how the figures were measured."""
    images = [page.image(title, _file(measure)) for measure, title in PLOTS.items()]
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
        _settings(found),
        *left_out,
    ]
    return "\n\n".join(part for part in parts if part)


def tables(found: Found) -> str:
    return "\n\n".join([_values(found, BACK), _values(found, IDLE), _fates(found)])


def draw(found: Found) -> None:
    from bench import plots

    for measure, title in PLOTS.items():
        series = [one for key in found.names if (one := found.series(measure, key))]
        if series:
            plots.dots(_file(measure), title, series)


def others_better(found: Found, measures: dict[str, str]) -> list[str]:
    """Return a line for each measure that names who is clearly better than clew, by the medians."""
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
        series = [found.series(measure, key) for measure in measures]
        rows.append([name, *(one.bare if one else "" for one in series)])
    return page.table(head, rows)


def _fates(found: Found) -> str:
    rows = [
        [name, *(found.facts.get(key, {}).get(fact, "") for fact in FATES)]
        for key, name in found.names.items()
        if FATES[0] in found.facts.get(key, {})
    ]
    return page.table(["", *FATES], rows)


def _settings(found: Found) -> str:
    names = found.names.items()
    rows = [[f"{name} {found.versions[key]}", found.settings[key]] for key, name in names]
    return page.table(["", "keeps a child up by"], rows)


def _counts(found: Found) -> str:
    """Return how many values there are, by what was measured."""
    parts = []
    for measure, label in BACK.items():
        counts = [len(values) for values in found.values.get(measure, {}).values()]
        low, high = min(counts, default=0), max(counts, default=0)
        parts.append(f"{label} {low}" if low == high else f"{label} {low} to {high}")
    return "values: " + "; ".join(parts)


def _file(measure: str) -> str:
    return "supervisors-" + measure.replace(", ", "-").replace(" ", "-")
