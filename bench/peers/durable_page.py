"""The part `durable` of docs/performance.md, and its two plots, from what the bench saved."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from bench import page, plots
from bench.figures import Result, Series, short
from bench.peers.steppers import NAMES, TIMES

SIZES = (10, 100, 1000, 3000, 10000)
AT_ONCE = {"clew": (1, 8, 64), "dbos": (1, 8), "dbos-wal": (1, 8), "langgraph-constant": (1, 8)}
ON_RECORD = dict.fromkeys(
    ("clew", "dbos-two", "langgraph-two"), "the decision before it is acted on; the outcome"
)
RECOVERED = {
    "clew": "clew: the daemon is killed",
    "clew-worker": "clew: the worker alone is killed",
    "dbos": "DBOS",
    "langgraph": "LangGraph, growing list",
}
COUNTED = {  # of recovery, with the heads of their columns
    "kills": "kills",
    "records lost": "records lost",
    "never carried out": "never carried out",
    "carried out twice": "carried out twice",
    "told of a step under way": "told of the step under way",
}
WAITING = {
    "launch": "launch to first step, ms",
    "imports": "imports alone, ms",
    "PSS": "PSS, MB",
    "idle CPU": "CPU, thousandths of a core",
}
BETTER = {  # a higher figure is better only where it is a rate
    **{f"step at {size}": f"a step after {size:,}" for size in SIZES},
    **{f"file at {size}": f"the file after {size:,}" for size in SIZES},
    "1 at once": "steps a second of one workflow",
    "8 at once": "steps a second of eight",
    "recovery at 100": "recovery after 100, against the daemon's",
    "recovery at 1000": "recovery after 1,000, against the daemon's",
    "launch": "launch to first step",
    "imports": "imports",
    "PSS": "PSS",
    "idle CPU": "CPU while waiting",
}


def text(result: Result) -> tuple[str, ...]:
    facts, series = result.facts, result.series
    versions = ", ".join(f"{name} {number}" for name, number in facts["versions"].items())
    missing = "".join(f" {peer} is left out: {why}." for peer, why in facts["missing"].items())
    rates = {way: (NAMES[way],) for way in AT_ONCE if f"{way}: 1 at once" in series}
    heads = {"1 at once": "1 workflow", "8 at once": "8 at once", "64 at once": "64 at once"}
    return (
        f"{result.source} {versions}.{missing}",
        _steps(result),
        _durable(series),
        page.image("A durable step", "durable-steps"),
        _grid(series, ("on the disk, MB",), _ways(series, "file at 1000"), _sizes("file")),
        _grid(series, ("steps a second",), rates, heads),
        _recovery(result),
        f"Seed of the moments of the kills: {facts['seed']}.",
        page.image("Recovery", "durable-recovery"),
        *_waiting(series),
        _facts(facts),
        _better(series),
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


def _grid(
    series: dict[str, Series],
    corner: Iterable[str],
    rows: Mapping[str, Iterable[Any]],
    columns: dict[str, str],
    after: Mapping[str, Iterable[Any]] | None = None,
) -> str:
    """Return a table of series; `rows` and `corner` hold the cells before them, `after` those behind."""
    lines = []
    for way, before in rows.items():
        found = [series.get(f"{way}: {column}") for column in columns]
        cells = [one.bare if one else "-" for one in found]
        lines.append([*before, *cells, *(after or {}).get(way, ())])
    return page.table([*corner, *columns.values(), *(COUNTED.values() if after else ())], lines)


def _ways(series: dict[str, Series], what: str) -> dict[str, tuple[str]]:
    return {way: (name,) for way, name in NAMES.items() if f"{way}: {what}" in series}


def _sizes(what: str) -> dict[str, str]:
    return {f"{what} at {size}": f"at {size:,}" for size in SIZES}


def _steps(result: Result) -> str:
    rows = {}
    for way, (name,) in _ways(result.series, "step at 10").items():
        calls, pragmas = result.series.get(f"{way}: syncs"), result.facts["pragmas"].get(way)
        syncs = f"{calls.median:.3g}" if calls else "not counted"
        syncs += f" ({pragmas})" if pragmas else ""
        rows[way] = (name, ON_RECORD.get(way, "the outcome"), syncs)
    corner = ("a step, µs", "on record", "waits for the disk")
    return _grid(result.series, corner, rows, _sizes("step"))


def _durable(series: dict[str, Series]) -> str:
    """Return whether each waits for the disk at every step."""
    counted = {way: one.median for way in NAMES if (one := series.get(f"{way}: syncs"))}
    lazy = [NAMES[way] for way, calls in counted.items() if calls < 1]
    if not counted:
        return "Calls that wait for the disk could not be counted here (no strace, or it may not)."
    if lazy:
        return f"Not safe when the power goes, since not every step waits for the disk: {', '.join(lazy)}."
    return "Each waits for the disk at every step, so a finished step outlives the loss of power."


def _recovery(result: Result) -> str:
    counts = result.facts["counts"]
    rows = {way: (label,) for way, label in RECOVERED.items() if way in counts}
    columns = {"recovery at 100": "100 steps done", "recovery at 1000": "1,000 done"}
    counted = {way: [counts[way][name] for name in COUNTED] for way in rows}
    return _grid(result.series, ("until the first new step, ms",), rows, columns, counted)


def _waiting(series: dict[str, Series]) -> Iterator[str]:
    rows = {way: (name.split(",")[0],) for way, (name,) in _ways(series, "launch").items()}
    table = _grid(series, ("one workflow that waits",), rows, WAITING)
    if "clew: PSS of the daemon" in series:
        kinds = ("PSS", "PSS of the daemon", "PSS of nursery and worker")
        whole, daemon, rest = (series[f"clew: {kind}"].bare for kind in kinds)
        parts = f"{whole} (daemon {daemon}; nursery, worker and its guards {rest})"
        table = table.replace(f"| {whole} |", f"| {parts} |", 1)
    yield table
    if "clew: launch" in series and "clew: PSS" not in series:
        yield "The memory of clew's processes is shown to root alone: not measured here."


def _facts(facts: dict[str, Any]) -> str:
    hung, failing = facts["hung_until_s"], facts["failing"]
    ways = [way for way in NAMES if way in failing]
    rows = [
        ["the process hangs (SIGSTOP)", *(_hung(hung[way]) for way in ways)],
        [f"one failing step, {TIMES} times", *(_tried(failing[way]) for way in ways)],
        ["what else stops it", *(_stopped(failing[way]) for way in ways)],
    ]
    return page.table(["what was seen", *(NAMES[way].split(",")[0] for way in ways)], rows)


def _hung(until_s: float | None) -> str:
    if until_s is None:
        return "stays as it is: nobody watches"
    return f"killed and replaced; the next step done after {short(until_s)} s"


def _tried(seen: dict[str, Any]) -> str:
    if "refused" not in seen:
        return f"carried out {seen['ran']} times"
    refused = ", ".join(f"{reason} {count}" for reason, count in seen["refused"].items())
    return f"carried out {seen['ran']} times; refused: {refused}; the goal is {seen['goal']}"


def _stopped(seen: dict[str, Any]) -> str:
    if "refused" in seen:
        return f"blocked and handed up to: {', '.join(seen['escalated_to'])}"
    tries = f"retries by default end after {seen['retried']} tries with {seen['retries_end_with']}"
    after = seen.get("stopped_after")
    return tries + (f"; the recursion limit, by default after {after:,} steps" if after else "")


def _better(series: dict[str, Series]) -> str:
    """Return where the median of a peer was better than clew's."""
    lines = []
    for what, label in BETTER.items():
        found = {way: series[f"{way}: {what}"] for way in _ways(series, what)}
        if (ours := found.pop("clew", None)) is None:
            continue
        sign = -1 if "at once" in what else 1
        better = [
            f"{NAMES[way]} ({short(one.median)})"
            for way, one in found.items()
            if sign * one.median < sign * ours.median
        ]
        if better:
            lines.append(f"- {label} ({short(ours.median)} {ours.unit}): {'; '.join(better)}")
    if not lines:
        return "In this run no median of a peer was better than clew's."
    return "Better than clew, by the median of this run:\n\n" + "\n".join(lines)
