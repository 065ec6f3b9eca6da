"""The part `peers` of docs/performance.md: tables, plots, and lines that name the peers that are better than clew."""

from bench import page, plots
from bench.figures import Result, Series

CLEW, BUILT_IN = "clew", "clew, built-in agent"
BACK = {  # measures, with their units, and the heads of their columns
    "restart, tiny": ("ms", "a bare child"),
    "again at once": ("ms", "killed again at once"),
    "restart, loaded": ("ms", "a loaded child"),
    "mass restart": ("ms", "the whole fleet"),
}
IDLE = {
    "own memory, none": ("MB", "memory, no children"),
    "own memory, fleet": ("MB", "memory, the fleet"),
    "idle CPU": ("% of a core", "CPU"),
    "idle wake-ups": ("/s", "wake-ups"),
    "memory of a child": ("MB", "memory of a child"),
}
UNITS = {measure: unit for measure, (unit, _) in (BACK | IDLE).items()}
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


def text(result: Result) -> tuple[str, ...]:
    """Return the whole part."""
    facts, names = result.facts, result.facts["names"]
    fleet, idle = facts["fleet"], "a supervisor's own processes, each child's memory apart"
    settings = [[f"{names[k]} {facts['versions'][k]}", facts["settings"][k]] for k in names]
    fates = [
        [names[key], *(seen.get(fate, "") for fate in FATES)]
        for key in names
        if FATES[0] in (seen := facts["facts"].get(key, {}))
    ]
    return (
        result.source,
        f"Until a child that was killed is ready again ({_counts(result)}; a fleet is {fleet}):",
        _values(result, BACK),
        *(page.image(title, _file(measure)) for measure, title in PLOTS.items()),
        "\n".join(others_better(result, BACK)),
        f"Idle ({fleet} idle children and eight more; {idle}):",
        _values(result, IDLE),
        "\n".join(others_better(result, IDLE)),
        "What becomes of a worker, and of what it started, when a process is killed:",
        page.table(["", *FATES], fates),
        "How each is configured:",
        page.table(["", "setting that keeps a child up"], settings),
        *(
            f"Not measured: {names.get(key, key)} ({why})."
            for key, why in sorted(facts["out"].items())
        ),
    )


def plot(result: Result) -> None:
    for measure, title in PLOTS.items():
        if seen := _by_peer(result, measure):
            named = [Series(name, one.unit, one.values) for name, one in seen.items()]
            plots.dots(_file(measure), title, named)


def others_better(result: Result, measures: dict[str, tuple[str, str]]) -> list[str]:
    """Return a line for each measure that names the peers that are better than clew."""
    lines = []
    for measure, (_, label) in measures.items():
        seen = _by_peer(result, measure)
        ours = [seen.pop(name) for name in (CLEW, BUILT_IN) if name in seen]
        if measure == "restart, loaded":  # only here has the nursery the same to do as the others
            ours.sort(key=lambda one: one.median)
        if ours:
            lines += page.better(label, ours[0], seen)
    return lines


def _by_peer(result: Result, measure: str) -> dict[str, Series]:
    named = {name: f"{measure}: {name}" for name in result.facts["names"].values()}
    return {name: result.series[full] for name, full in named.items() if full in result.series}


def _values(result: Result, measures: dict[str, tuple[str, str]]) -> str:
    names = {name: name for name in result.facts["names"].values()}
    heads = {measure: f"{label}, {unit}" for measure, (unit, label) in measures.items()}
    return page.grid(result.series, names, heads, name="{column}: {row}", bare=True)


def _counts(result: Result) -> str:
    """Return how many values there are, by what was measured."""
    parts = []
    for measure, (_, label) in BACK.items():
        counts = [len(one.values) for one in _by_peer(result, measure).values()]
        low, high = min(counts, default=0), max(counts, default=0)
        parts.append(f"{label} {low}" if low == high else f"{label} {low} to {high}")
    return "values: " + "; ".join(parts)


def _file(measure: str) -> str:
    return "supervisors-" + measure.replace(", ", "-").replace(" ", "-")
