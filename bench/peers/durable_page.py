"""The part `durable` of docs/performance.md, and its two plots, from what the bench saved."""

from collections.abc import Iterable
from typing import Any

from bench import figures, page
from bench.figures import Kept, Series
from bench.peers.durable_measures import AT_ONCE, SIZES
from bench.peers.steppers import NAMES, TIMES

ON_RECORD = dict.fromkeys(
    ("clew", "dbos-two", "langgraph-two"), "the decision before it is acted on; the outcome"
)
RECOVERED = {
    "clew": "clew: the daemon is killed",
    "clew-worker": "clew: the worker alone is killed",
    "dbos": "DBOS",
    "langgraph": "LangGraph, growing list",
}


def write(kept: Kept) -> None:
    """Write the part and the plots."""
    from bench import plots

    page.write("durable", text(kept))
    _, series = kept
    curves = {}
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


def text(kept: Kept) -> str:
    facts, series = kept[0]["facts"], kept[1]
    versions = ", ".join(f"{name} {number}" for name, number in facts["versions"].items())
    missing = "".join(f" {peer} is left out: {why}." for peer, why in facts["missing"].items())
    parts = (
        f"{page.under(kept[0])} {versions}.{missing}",
        _steps(facts, series),
        _durable(series),
        page.image("A durable step", "durable-steps"),
        _files(series),
        _rates(series),
        _recovery(facts, series),
        page.image("Recovery", "durable-recovery"),
        _idle(series),
        _facts(facts),
        _better(series),
    )
    return "\n\n".join(parts)


def _steps(facts: dict[str, Any], series: dict[str, Series]) -> str:
    head = ["a step, µs", "on record", "waits for the disk", *(f"at {size:,}" for size in SIZES)]
    rows = []
    for way in _measured(series, "step at 10"):
        calls, pragmas = series.get(f"{way}: syncs"), facts["pragmas"].get(way)
        syncs = f"{calls.median:.3g}" if calls else "not counted"
        syncs += f" ({pragmas})" if pragmas else ""
        cells = _cells(series, (f"{way}: step at {size}" for size in SIZES))
        rows.append([NAMES[way], ON_RECORD.get(way, "the outcome"), syncs, *cells])
    return page.table(head, rows)


def _durable(series: dict[str, Series]) -> str:
    """Return whether each waits for the disk at every step."""
    counted = {way: one.median for way in NAMES if (one := series.get(f"{way}: syncs"))}
    lazy = [NAMES[way] for way, calls in counted.items() if calls < 1]
    if not counted:
        return "Calls that wait for the disk could not be counted here (no strace, or it may not)."
    if lazy:
        return f"Not safe when the power goes, since not every step waits for the disk: {', '.join(lazy)}."
    return "Each waits for the disk at every step, so a finished step outlives the loss of power."


def _files(series: dict[str, Series]) -> str:
    head = ["on the disk, MB", *(f"at {size:,}" for size in SIZES)]
    rows = [
        [NAMES[way], *_cells(series, (f"{way}: file at {size}" for size in SIZES))]
        for way in _measured(series, "file at 1000")
    ]
    return page.table(head, rows)


def _rates(series: dict[str, Series]) -> str:
    rows = [
        [NAMES[way], *_cells(series, (f"{way}: {many} at once" for many in (1, 8, 64)))]
        for way in AT_ONCE
        if f"{way}: 1 at once" in series
    ]
    return page.table(["steps a second", "1 workflow", "8 at once", "64 at once"], rows)


def _recovery(facts: dict[str, Any], series: dict[str, Series]) -> str:
    counted = ("kills", "records lost", "never carried out", "carried out twice")
    last = "told of the step under way"
    head = ["until the first new step, ms", "100 steps done", "1,000 done", *counted, last]
    rows = []
    for way, label in RECOVERED.items():
        if counts := facts["counts"].get(way):
            seen = [counts[name] for name in (*counted, "told of a step under way")]
            cells = _cells(series, (f"{way}: recovery at {size}" for size in (100, 1000)))
            rows.append([label, *cells, *seen])
    return page.table(head, rows) + f"\n\nSeed of the moments of the kills: {facts['seed']}."


def _idle(series: dict[str, Series]) -> str:
    what = {
        "launch": "launch to first step, ms",
        "imports": "imports alone, ms",
        "PSS": "PSS, MB",
        "idle CPU": "CPU, thousandths of a core",
    }
    rows = [
        [NAMES[way].split(",")[0], *_cells(series, (f"{way}: {name}" for name in what))]
        for way in ("clew", "dbos", "langgraph")
        if f"{way}: launch" in series
    ]
    if "clew: PSS of the daemon" in series:
        parts = ("clew: PSS of the daemon", "clew: PSS of nursery and worker")
        daemon, rest = (figures.short(series[name].median) for name in parts)
        rows[0][3] += f" (daemon {daemon}; nursery, worker and its guards {rest})"
    table = page.table(["one workflow that waits", *what.values()], rows)
    if "clew: launch" in series and "clew: PSS" not in series:
        table += "\n\nThe memory of clew's processes is shown to root alone: not measured here."
    return table


def _facts(facts: dict[str, Any]) -> str:
    hung, failing = facts["hung_until_s"], facts["failing"]
    ways = [way for way in NAMES if way in failing]
    head = ["what was seen", *(NAMES[way].split(",")[0] for way in ways)]
    rows = [
        ["the process hangs (SIGSTOP)", *(_hung(hung[way]) for way in ways)],
        [f"one failing step, {TIMES} times", *(_tried(failing[way]) for way in ways)],
        ["what else stops it", *(_stopped(failing[way]) for way in ways)],
    ]
    return page.table(head, rows)


def _hung(until_s: float | None) -> str:
    if until_s is None:
        return "stays as it is: nobody watches"
    return f"killed and replaced; the next step done after {figures.short(until_s)} s"


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


def _better(series: dict[str, Series]) -> str:
    """Return where the median of a peer was better than clew's."""
    lines = []
    for what, words in BETTER.items():
        if (ours := series.get(f"clew: {what}")) is None:
            continue
        others = [(NAMES[way], series.get(f"{way}: {what}")) for way in NAMES if way != "clew"]
        better = [
            f"{name} ({figures.short(one.median)})"
            for name, one in others
            if one and (one.median > ours.median if "at once" in what else one.median < ours.median)
        ]
        if better:
            lines.append(
                f"- {words} ({figures.short(ours.median)} {ours.unit}): {'; '.join(better)}"
            )
    if not lines:
        return "In this run no median of a peer was better than clew's."
    return "Better than clew, by the median of this run:\n\n" + "\n".join(lines)


def _cells(series: dict[str, Series], names: Iterable[str]) -> list[str]:
    """Return median and spread without the unit, which the head has."""
    return [series[name].bare if name in series else "-" for name in names]


def _measured(series: dict[str, Series], what: str) -> list[str]:
    return [way for way in NAMES if f"{way}: {what}" in series]
