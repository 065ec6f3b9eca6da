"""Looking at goals: `status`, `history`, `show`, `loops`, `context`.

`status` asks the daemon where one runs; everything else is read from the ledger, beside the daemon.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from clew_daemon.cli import parameters

if TYPE_CHECKING:
    from clew_daemon.cli.display.output import Line
    from clew_daemon.cli.instance import Instance

ARGS_CHARS = 120
"""How much of an action's arguments a line of the history has; `clew show` has them whole."""

HEAD_LINES = 10
DAEMON_KEYS = ("pid", "version", "uptime_s", "ready", "config_error")


@click.command()
@parameters.optional_goal
@parameters.limit
@click.option("--before", metavar="ID", help="Only goals accepted before this one.")
@parameters.as_json
@click.pass_obj
def status(
    instance: Instance, goal: str | None, limit: int | None, before: str | None, as_json: bool
) -> None:
    """Show the goals that have not ended and the last that have, or one goal's tree and progress."""
    from clew_daemon.cli.display.output import print_json, print_lines

    asked = parameters.limited(limit, as_json=as_json)
    view = _one(instance, goal) if goal is not None else _all(instance, asked, before)
    daemon = view["daemon"]
    if as_json:
        view["daemon"] = daemon and {**daemon, **{key: daemon.get(key) for key in DAEMON_KEYS}}
        print_json(view)
        return
    from clew_daemon.cli.display import goals as tree
    from clew_daemon.cli.display.sanitize import clean

    lines = tree.daemon_lines(daemon, instance.holder if daemon is None else None)
    if goal is not None:
        shown = tree.goal_lines(view["goal"], report=report_of(instance, view["goal"]["id"]))
        print_lines([*lines, *shown])
        return
    goals = view["goals"]
    first = next((one["id"] for one in goals if one["status"] in tree.OVER), "")
    lines += tree.inbox_lines(view.get("inbox") or ())
    lines += _left_out(view.get("more"), "goals that have ended", f"clew status --before {first}")
    none = f"no goals yet; start one with `clew submit FILE`, or put a file into {instance.places.inbox}"
    print_lines([*lines, *(tree.overview(goals) or [[(clean(none), "dim")]])])


@click.command()
@parameters.goal
@parameters.limit
@click.option("--before", type=parameters.SEQ, metavar="SEQ", help="Only actions before this one.")
@click.option(
    "--iterations",
    is_flag=True,
    help="Show iteration records instead: the calls of each turn and what was found.",
)
@click.option("--output", is_flag=True, help="Show the first lines of each action's output too.")
@parameters.as_json
@click.pass_obj
def history(
    instance: Instance,
    goal: str,
    limit: int | None,
    before: int | None,
    iterations: bool,
    output: bool,
    as_json: bool,
) -> None:
    """Show a goal's last actions, oldest first; `clew show` shows one of them in full."""
    from clew_daemon.cli.display.output import columns, print_json, print_lines

    if output and iterations:
        raise click.UsageError("--output cannot be used with --iterations")

    asked = parameters.limited(limit, as_json=as_json)
    if iterations:
        name, records, more = _reflected(instance, goal, asked, before)
        shown = {"goal": name, "iterations": records, "more": more}
        lines = columns([row for one in records for row in _record_rows(one)])
        first = records[0]["iteration"] if records else 0
    else:
        name, actions, more = _recorded(instance, goal, asked, before, outputs=as_json or output)
        shown = {"goal": name, "actions": actions, "more": more}
        lines = columns([_action_row(action) for action in actions])
        if output:
            heads = [_head(name, action) for action in actions]
            lines = [line for row, head in zip(lines, heads, strict=True) for line in (row, *head)]
        first = actions[0]["seq"] if actions else 0
    if as_json:
        print_json(shown)
        return
    what = "iterations" if iterations else "actions"
    command = f"clew history {name} {'--iterations ' * iterations}--before {first}"
    print_lines([*_left_out(more, what, command), *(lines or [_none_yet(instance, name, what)])])


@click.command()
@parameters.optional_goal
@parameters.limit
@click.option("--before", type=parameters.SEQ, metavar="SEQ", help="Only loops before this event.")
@parameters.as_json
@click.pass_obj
def loops(
    instance: Instance, goal: str | None, limit: int | None, before: int | None, as_json: bool
) -> None:
    """Show the last loops that were detected, with the evidence, oldest first."""
    from clew_daemon.cli.display.output import print_json, print_lines

    found, more = _looped(instance, goal, parameters.limited(limit, as_json=as_json), before)
    if as_json:
        print_json({"loops": found, "more": more})
        return
    if not found:
        print_lines([[("no loops", "dim")]])
        return
    asked = f"clew loops {goal + ' ' if goal else ''}--before {found[0]['seq']}"
    lines = [line for entry in found for line in _loop_lines(entry)]
    print_lines([*_left_out(more, "loops", asked), *lines])


@click.command()
@parameters.goal
@click.option("--compact", is_flag=True, help="Show the compact text instead of the prompt.")
@click.option(
    "--max-chars",
    type=click.IntRange(200),
    help="The greatest length of the compact text, in characters.",
)
@parameters.as_json
@click.pass_obj
def context(
    instance: Instance, goal: str, compact: bool, max_chars: int | None, as_json: bool
) -> None:
    """Show exactly what the agent's LLM would be shown now, message by message, and its size."""
    from clew_daemon.cli.display.output import print_json, print_lines
    from clew_daemon.cli.display.sanitize import clean
    from clew_daemon.cli.prompt_preview import prompted
    from clew_daemon.cli.queries import named, state
    from clew_shared.prompt.compact import compact_context

    if max_chars and not (compact or as_json):
        raise click.UsageError("--max-chars is the length of the compact text: add --compact")
    name = named(instance, goal)
    limit = max_chars or instance.shown_by.context.max_chars
    text = compact_context(state(instance, name), limit)
    if compact and not as_json:
        size = f"-- {len(text)} characters, at most {limit}"
        print_lines([[(clean(text, lines=True), "")], [(size, "dim")]])
        return
    shown = prompted(instance, name)
    if as_json:
        print_json({"goal": name, "context": text, "chars": len(text)} | shown)
    else:
        print_lines(_prompt_lines(shown))


def report_of(instance: Instance, goal: str) -> str:
    """Return the path of a goal's report, "" where there is none yet."""
    report = instance.places.outbox / f"{goal}.md"
    return str(report) if report.exists() else ""


def _none_yet(instance: Instance, goal: str, what: str) -> Line:
    """Say that there are no actions or iterations yet, and which action runs."""
    from clew_daemon.cli.display.sanitize import clean, short
    from clew_daemon.cli.queries import state

    flights = list(state(instance, goal).in_flight.values()) if what == "actions" else []
    if not flights:
        return [(f"no {what} yet", "dim")]
    running = "running" if instance.holder is not None else "begun before the daemon ended"
    first = flights[-1]
    doing = short(first.signature.replace("::", " ", 1), ARGS_CHARS)
    show = f"clew show {clean(goal)} {first.seq}"
    return [(f"no finished actions yet; {running}: #{first.seq} {doing} ({show})", "dim")]


def _left_out(more: object, what: str, command: str) -> list[Line]:
    """Say that there are earlier ones, and how to see them."""
    return [[(f"… earlier {what}: {command}, or -n 0 for all", "dim")]] if more else []


def _all(instance: Instance, limit: int | None, before: str | None) -> dict[str, Any]:
    from clew_daemon.cli.client import look
    from clew_daemon.cli.queries import named, states, waits

    last = None if before is None else named(instance, before)
    answer = look(instance.socket, "status", limit=limit, before=last)
    if answer is not None:
        return dict(answer)
    from clew_daemon.inbox.leftovers import left
    from clew_shared.views.publish import status_view

    found, more = states(instance, limit, last)
    now = time.time()
    waiting = waits(instance, found, now)
    goals = [status_view(one, now, waiting.get(one.goal_id, "")) for one in found]
    return {"daemon": None, "goals": goals, "more": more, **left(instance.places.inbox).view()}


def _one(instance: Instance, goal: str) -> dict[str, Any]:
    from clew_daemon.cli.client import look
    from clew_daemon.cli.queries import named, state, waits

    name = named(instance, goal)
    answer = look(instance.socket, "status", goal=name)
    if answer is not None:
        return dict(answer)
    from clew_shared.views.publish import goal_detail

    found, now = state(instance, name), time.time()
    waiting = waits(instance, [found], now).get(name, "")
    return {"daemon": None, "goal": goal_detail(found, now, waiting)}


def _recorded(
    instance: Instance, goal: str, limit: int | None, before: int | None, *, outputs: bool
) -> tuple[str, list[dict[str, Any]], bool]:
    """Return a goal's full name, its last actions, and whether there are earlier ones."""
    from clew_daemon.cli.queries import named, opened

    name = named(instance, goal)
    with opened(instance) as reader:
        if reader is None:
            return name, [], False
        from clew_daemon.record import pages

        return name, *pages.actions(reader, name, limit, before, outputs=outputs)


def _looped(
    instance: Instance, goal: str | None, limit: int | None, before: int | None
) -> tuple[list[dict[str, Any]], bool]:
    """Return the last loops of a goal, or of all, and whether there are earlier ones."""
    from clew_daemon.cli.queries import named, opened

    name = None if goal is None else named(instance, goal)
    with opened(instance) as reader:
        if reader is None:
            return [], False
        from clew_daemon.record import pages

        return pages.loops(reader, name, limit, before)


def _prompt_lines(shown: dict[str, Any]) -> list[Line]:
    from clew_daemon.cli.display.output import columns
    from clew_daemon.cli.display.sanitize import clean

    lines: list[Line] = [[(f"-- {clean(shown['note'])}", "yellow")]] if shown["note"] else []
    for message in shown["messages"]:
        body = message.get("content") or ""
        calls = "".join(
            f"\n-> {c['function']['name']} {c['function']['arguments']}"
            for c in message.get("tool_calls") or ()
        )
        lines += [[(f"== {message['role']}", "bold")], [(clean(body + calls, lines=True), "")]]
    sizes: list[Line] = [
        [
            (f"   {name}", ""),
            (f"{size['tokens']} tokens", ""),
            (f"{size['chars']} characters", "dim"),
        ]
        for name, size in shown["sizes"].items()
    ]
    lines += [[("-- size (tokens are estimated)", "bold")], *columns(sizes)]
    if shown["left_out"]:
        lines.append([("-- left out", "bold")])
        lines += [[(f"   {clean(line)}", "")] for line in shown["left_out"]]
    sha, last = shown["sha"], shown["sha_of_last_call"]
    same = "the same as in the last call" if sha == last else f"it was {last} in the last call"
    told = "no calls yet" if last is None else same
    return [*lines, [(f"-- hash of the prompt's head: {sha} ({told})", "dim")]]


def _reflected(
    instance: Instance, goal: str, limit: int | None, before: int | None
) -> tuple[str, list[dict[str, Any]], bool]:
    """Return a goal's full name, its last iteration records, and whether there are earlier ones."""
    from clew_daemon.cli.queries import named, opened
    from clew_daemon.record.iterations import KINDS, records_of
    from clew_shared.record import events as ev

    name = named(instance, goal)
    with opened(instance) as reader:
        rows = () if reader is None else reader.read(name)
        records = records_of(ev.decode(row.body) for row in rows if row.kind in KINDS)
    found = [one for one in records if before is None or one["iteration"] < before]
    shown = found if limit is None else found[-limit:]
    return name, shown, len(shown) < len(found)


def _record_rows(record: dict[str, Any]) -> list[Line]:
    """Return a turn's lines, one for each call: what was done and what was found."""
    from clew_daemon.cli.display.sanitize import clean
    from clew_shared.prompt.reasoning import did, found, reasoning_line
    from clew_shared.record.moment import local

    said = [
        reasoning_line(
            did(call["tool"], call["params"]),
            found(call["insights"], call["learning"], call["outcome"], call["raw_output"]),
        )
        for call in record["tool_calls"]
    ]
    return [
        [
            (f"iteration {record['iteration']}", ""),
            (clean(local(record["timestamp"])), "dim"),
            (clean(record["progress_assessment"]), "dim"),
            (clean(line), ""),
        ]
        for line in said or [record["synthesis"] or "no action"]
    ]


def _action_row(action: dict[str, Any]) -> Line:
    from clew_daemon.cli.display.goals import action_text
    from clew_daemon.cli.display.output import RESULT_STYLE
    from clew_daemon.cli.display.sanitize import clean, short
    from clew_shared.record.moment import local

    return [
        (f"#{action['seq']}", "dim"),
        (clean(local(action["timestamp"])), "dim"),
        (f"{action['task_idx'] + 1}.{action['subtask_idx'] + 1}", ""),
        (f"epoch {action['epoch']}", "dim"),
        (clean(action["result"]), RESULT_STYLE.get(action["result"], "")),
        (_took(action), "dim"),
        (short(action_text(action), ARGS_CHARS), ""),
    ]


def _took(action: dict[str, Any]) -> str:
    """Return how long an action took; a refused one took no time, and of an interrupted one it is not known."""
    is_known = action["result"] not in ("blocked", "interrupted")
    return f"{action['duration_s']:.2f} s" if is_known else "-"


def _head(goal: str, action: dict[str, Any]) -> list[Line]:
    """Return the first lines of an action's output, and where the rest is."""
    from clew_daemon.cli.display.sanitize import clean
    from clew_shared.views.publish import OUTPUT_CHARS

    output = action["output"]
    lines = clean(output, lines=True).rstrip().splitlines()
    shown: list[Line] = [[(f"    {line}", "dim")] for line in lines[:HEAD_LINES]]
    if len(lines) > HEAD_LINES or len(output) == OUTPUT_CHARS:
        shown.append([(f"    … all of it: clew show {goal} {action['seq']}", "dim")])
    return shown


def _loop_lines(entry: dict[str, Any]) -> list[Line]:
    from clew_daemon.cli.display.sanitize import clean
    from clew_shared.record.moment import local

    escalated = f", escalated to the {entry['escalated_to']}" if entry["escalated_to"] else ""
    at = f"{entry['task_idx'] + 1}.{entry['subtask_idx'] + 1}"
    lines: list[Line] = [
        [
            (clean(local(entry["timestamp"])), "dim"),
            (f"  {clean(entry['goal'])} {at}  ", ""),
            (clean(entry["kind"]), "bold magenta"),
            (f", attempt {entry['attempt_count']}{clean(escalated)}", ""),
        ],
    ]
    if entry["action_signature"]:
        lines.append([(f"    {clean(entry['action_signature'])}", "")])
    evidence = clean(str(entry["evidence"] or ""), lines=True).splitlines()
    return lines + [[(f"    {line}", "dim")] for line in evidence]
