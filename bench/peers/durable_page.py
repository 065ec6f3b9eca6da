"""The part `durable` of docs/performance.md, and its two plots, from what the bench saved."""

from bench import page, plots
from bench.figures import Result, Series

SIZES = (10, 100, 1000, 3000, 10000)
AT_ONCE = {"clew": (1, 8, 64), "dbos": (1, 8), "dbos-wal": (1, 8), "langgraph-constant": (1, 8)}
NAMES = {
    "clew": "clew",
    "dbos": "DBOS",
    "dbos-wal": "DBOS, its file set to WAL by hand",
    "dbos-two": "DBOS, the decision a step of its own",
    "langgraph": "LangGraph, growing list",
    "langgraph-delta": "LangGraph, DeltaChannel",
    "langgraph-constant": "LangGraph, no list",
    "langgraph-two": "LangGraph, no list, the decision a node of its own",
}
ON_RECORD = dict.fromkeys(
    ("clew", "dbos-two", "langgraph-two"), "the decision before it is acted on; the outcome"
)
CLEW_PRAGMAS = "journal_mode = wal, synchronous = 2"  # otherwise it does not open its ledger
RECOVERED = {
    "clew": "clew: the daemon is killed",
    "clew-worker": "clew: the worker alone is killed",
    "dbos": "DBOS",
    "langgraph": "LangGraph, growing list",
}
RECOVERY = {"recovery at 100": "100 steps done", "recovery at 1000": "1,000 done"}
COUNTED = (  # of recovery
    "kills",
    "records lost",
    "never carried out",
    "carried out twice",
    "reported as interrupted",
)
RATES = {"1 at once": "1 workflow", "8 at once": "8 at once", "64 at once": "64 at once"}
WAITING = {
    "launch": "launch to first step, ms",
    "PSS": "PSS, MB",
    "idle CPU": "CPU, thousandths of a core",
}
STEP, FILE = ({f"{what} at {size}": f"at {size:,}" for size in SIZES} for what in ("step", "file"))
COMPARED = {
    **{f"step at {size}": f"a step after {size:,}" for size in SIZES},
    **{f"file at {size}": f"the file after {size:,}" for size in SIZES},
    "1 at once": "steps a second of one workflow",
    "8 at once": "steps a second of eight",
    "recovery at 100": "recovery after 100, against the daemon's",
    "recovery at 1000": "recovery after 1,000, against the daemon's",
    "launch": "launch to first step",
    "PSS": "PSS",
    "idle CPU": "CPU while waiting",
}


def text(result: Result) -> tuple[str, ...]:
    facts, series = result.facts, result.series
    versions = ", ".join(f"{name} {number}" for name, number in facts["versions"].items())
    missing = "".join(f" {peer} is left out: {why}." for peer, why in facts["missing"].items())
    stepping = _ways(series, "step at 10")
    grids = (
        ("a step, µs", stepping, STEP),
        ("on the disk, MB", _ways(series, "file at 1000"), FILE),
        ("steps a second", _ways(series, "1 at once"), RATES),
        ("until the first new step, ms", RECOVERED, RECOVERY),
    )
    return (
        f"{result.source} {versions}.{missing}",
        _kept(result, stepping),
        page.image("A durable step", "durable-steps"),
        *(page.grid(series, ways, of, corner=what, bare=True) for what, ways, of in grids),
        _counted(facts["counts"]),
        f"Seed of the moments of the kills: {facts['seed']}.",
        page.image("Recovery", "durable-recovery"),
        _waiting(series),
        "\n".join(_better(series)),
    )


def plot(result: Result) -> None:
    series, curves = result.series, {}
    for way, label in NAMES.items():
        names = {size: f"{way}: step at {size}" for size in SIZES}
        points = [(size, series[name].median) for size, name in names.items() if name in series]
        if len(points) > 2:
            curves[label] = points
    plots.lines("durable-steps", "A durable step", "finished steps of the workflow", "µs", curves)
    recovered = [
        Series(label, "ms", series[name].values)
        for way, label in RECOVERED.items()
        if (name := f"{way}: recovery at 100") in series
    ]
    plots.dots("durable-recovery", "Recovery after SIGKILL, 100 steps done", recovered)


def _ways(series: dict[str, Series], what: str) -> dict[str, str]:
    return {way: name for way, name in NAMES.items() if f"{way}: {what}" in series}


def _kept(result: Result, ways: dict[str, str]) -> str:
    settings = {"clew": CLEW_PRAGMAS} | result.facts["pragmas"]
    rows = [[name, ON_RECORD.get(way, "the outcome"), settings[way]] for way, name in ways.items()]
    return page.table(["", "on record", "settings of SQLite"], rows)


def _counted(counts: dict[str, dict[str, int]]) -> str:
    rows = [
        [label, *(counts[way][name] for name in COUNTED)]
        for way, label in RECOVERED.items()
        if way in counts
    ]
    return page.table(["", *COUNTED], rows)


def _waiting(series: dict[str, Series]) -> str:
    ways = {way: name.split(",")[0] for way, name in _ways(series, "launch").items()}
    table = page.grid(series, ways, WAITING, corner="one workflow that waits", bare=True)
    if "clew: launch" in series and "clew: PSS" not in series:
        table += "\n\nThe memory of clew's processes is shown to root alone: not measured here."
    return table


def _better(series: dict[str, Series]) -> list[str]:
    """Return a line for each measure that names the peers that are better than clew."""
    lines = []
    for what, label in COMPARED.items():
        found = {name: series[f"{way}: {what}"] for way, name in _ways(series, what).items()}
        if ours := found.pop("clew", None):
            lines += page.better(label, ours, found, rate="at once" in what)
    return lines
