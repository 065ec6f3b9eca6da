"""Looking at goals: `status`, `history`, `loops`, `context`.

`status` asks the daemon where one runs; all else is read from the ledger, beside the daemon.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from clew_daemon.cli import arguments

if TYPE_CHECKING:
    from clew_daemon.cli.output import Line
    from clew_daemon.cli.where import Where

EVIDENCE_LINES = 10
LINE_CHARS = 500
OVER = ("completed", "failed", "cancelled")
DAEMON_KEYS = ("pid", "version", "uptime_s", "ready", "config_error")


@click.command()
@arguments.optional_goal
@arguments.limit
@click.option("--before", metavar="ID", help="Those that were accepted before this goal.")
@arguments.as_json
@click.pass_obj
def status(
    where: Where, goal: str | None, limit: int | None, before: str | None, as_json: bool
) -> None:
    """Show goals (those that are not over, and the last that are), or one goal's tree with its progress."""
    from clew_daemon.cli import tree
    from clew_daemon.cli.output import print_json, print_lines

    asked = arguments.limited(limit, as_json=as_json)
    view = _one(where, goal) if goal is not None else _all(where, asked, before)
    daemon = view["daemon"]
    if as_json:
        view["daemon"] = daemon and {**daemon, **{key: daemon.get(key) for key in DAEMON_KEYS}}
        print_json(view)
        return
    line = tree.daemon_line(daemon, where.holder if daemon is None else None)
    if goal is not None:
        print_lines([line, *tree.goal_lines(view["goal"])])
        return
    first = next((one["id"] for one in view["goals"] if one["status"] in OVER), "")
    left_out = _left_out(view.get("more"), "goals that are over", f"clew status --before {first}")
    print_lines([line, *left_out, *tree.overview(view["goals"])])


@click.command()
@arguments.goal
@arguments.limit
@click.option("--before", type=arguments.SEQ, metavar="SEQ", help="Those before this action.")
@click.option(
    "--iterations",
    is_flag=True,
    help="The iteration records: each turn's calls and what was found.",
)
@arguments.as_json
@click.pass_obj
def history(
    where: Where,
    goal: str,
    limit: int | None,
    before: int | None,
    iterations: bool,
    as_json: bool,
) -> None:
    """Show a goal's last actions, oldest first."""
    from clew_daemon.cli.output import columns, print_json, print_lines

    asked = arguments.limited(limit, as_json=as_json)
    if iterations:
        name, records, more = _reflected(where, goal, asked, before)
        shown = {"goal": name, "iterations": records, "more": more}
        rows, none = [row for one in records for row in _record_rows(one)], "no iterations yet"
        first = records[0]["iteration"] if records else 0
    else:
        name, actions, more = _recorded(where, goal, asked, before, outputs=as_json)
        shown = {"goal": name, "actions": actions, "more": more}
        rows, none = [_action_row(action) for action in actions], "no actions yet"
        first = actions[0]["seq"] if actions else 0
    if as_json:
        print_json(shown)
        return
    command = f"clew history {name} {'--iterations ' * iterations}--before {first}"
    left_out = _left_out(more, "iterations" if iterations else "actions", command)
    print_lines([*left_out, *(columns(rows) or [[(none, "dim")]])])


@click.command()
@arguments.optional_goal
@arguments.limit
@click.option("--before", type=arguments.SEQ, metavar="SEQ", help="Those before this event.")
@arguments.as_json
@click.pass_obj
def loops(
    where: Where, goal: str | None, limit: int | None, before: int | None, as_json: bool
) -> None:
    """Show the last loops that were detected, oldest first, with the evidence."""
    from clew_daemon.cli.output import print_json, print_lines

    found, more = _looped(where, goal, arguments.limited(limit, as_json=as_json), before)
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
@arguments.goal
@click.option("--compact", is_flag=True, help="The need-to-know text instead of the prompt.")
@click.option(
    "--max-chars",
    type=click.IntRange(200),
    help="With --compact: at most so many characters.",
)
@arguments.as_json
@click.pass_obj
def context(where: Where, goal: str, compact: bool, max_chars: int | None, as_json: bool) -> None:
    """Show exactly what the agent's LLM would be shown now, block by block, with its size."""
    from clew_daemon.cli.output import print_json, print_lines
    from clew_daemon.cli.printable import clean
    from clew_daemon.cli.prompted import prompted
    from clew_daemon.cli.record import named, state
    from clew_shared.compact import compact_context

    name = named(where, goal)
    limit = max_chars or where.shown_by.context.max_chars
    text = compact_context(state(where, name), limit)
    if compact and not as_json:
        size = f"-- {len(text)} characters of at most {limit}"
        print_lines([[(clean(text, lines=True), "")], [(size, "dim")]])
        return
    shown = prompted(where, name)
    if as_json:
        print_json({"goal": name, "context": text, "chars": len(text)} | shown)
    else:
        print_lines(_prompt_lines(shown))


def _left_out(more: object, what: str, command: str) -> list[Line]:
    """Say that there are earlier ones, and how to see them."""
    return [[(f"… earlier {what}: {command}, or all: -n 0", "dim")]] if more else []


def _all(where: Where, limit: int | None, before: str | None) -> dict[str, Any]:
    from clew_daemon.cli.client import ask
    from clew_daemon.cli.record import named, states

    last = None if before is None else named(where, before)
    answer = ask(where.socket, "status", limit=limit, before=last)
    if answer is not None:
        return dict(answer)
    from clew_daemon.inbox_left import left
    from clew_shared.publish import status_view

    found, more = states(where, limit, last)
    now = time.time()
    goals = [status_view(one, now) for one in found]
    return {"daemon": None, "goals": goals, "more": more, **left(where.places.inbox).view()}


def _one(where: Where, goal: str) -> dict[str, Any]:
    from clew_daemon.cli.client import ask
    from clew_daemon.cli.record import named, state

    name = named(where, goal)
    answer = ask(where.socket, "status", goal=name)
    if answer is not None:
        return dict(answer)
    from clew_shared.publish import goal_detail

    return {"daemon": None, "goal": goal_detail(state(where, name), time.time())}


def _recorded(
    where: Where, goal: str, limit: int | None, before: int | None, *, outputs: bool
) -> tuple[str, list[dict[str, Any]], bool]:
    """Return a goal's full name, its last actions, and whether there are earlier ones."""
    from clew_daemon.cli.record import named, opened

    name = named(where, goal)
    with opened(where) as reader:
        if reader is None:
            return name, [], False
        from clew_daemon import pages

        return name, *pages.actions(reader, name, limit, before, outputs=outputs)


def _looped(
    where: Where, goal: str | None, limit: int | None, before: int | None
) -> tuple[list[dict[str, Any]], bool]:
    """Return the last loops of a goal, or of all, and whether there are earlier ones."""
    from clew_daemon.cli.record import named, opened

    name = None if goal is None else named(where, goal)
    with opened(where) as reader:
        if reader is None:
            return [], False
        from clew_daemon import pages

        return pages.loops(reader, name, limit, before)


def _prompt_lines(shown: dict[str, Any]) -> list[Line]:
    from clew_daemon.cli.output import columns
    from clew_daemon.cli.printable import clean

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
    lines += [[("-- size, tokens estimated", "bold")], *columns(sizes)]
    if shown["left_out"]:
        lines.append([("-- left out", "bold")])
        lines += [[(f"   {clean(line)}", "")] for line in shown["left_out"]]
    sha, last = shown["sha"], shown["sha_of_last_call"]
    same = (
        "the same as in the last call"
        if sha == last
        else f"another one than in the last call, {last}"
    )
    told = "no call was made yet" if last is None else same
    return [*lines, [(f"-- head {sha}: {told}", "dim")]]


def _reflected(
    where: Where, goal: str, limit: int | None, before: int | None
) -> tuple[str, list[dict[str, Any]], bool]:
    """Return a goal's full name, its last iteration records, and whether there are earlier ones."""
    from clew_daemon.cli.record import named, opened
    from clew_shared import events as ev
    from clew_shared.iterations import KINDS, records_of

    name = named(where, goal)
    with opened(where) as reader:
        rows = () if reader is None else reader.read(name)
        records = records_of(ev.decode(row.body) for row in rows if row.kind in KINDS)
    found = [one for one in records if before is None or one["iteration"] < before]
    shown = found if limit is None else found[-limit:]
    return name, shown, len(shown) < len(found)


def _record_rows(record: dict[str, Any]) -> list[Line]:
    """Write a turn, a line a call: what was done and what was found."""
    from clew_daemon.cli.printable import clean, short
    from clew_shared.reasoning import did, found, reasoning_line

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
            (clean(record["timestamp"][:19].replace("T", " ")), "dim"),
            (clean(record["progress_assessment"]), "dim"),
            (short(line, LINE_CHARS), ""),
        ]
        for line in said or [record["synthesis"] or "no action"]
    ]


def _action_row(action: dict[str, Any]) -> Line:
    from clew_daemon.cli.output import RESULT_STYLE
    from clew_daemon.cli.printable import clean, short
    from clew_daemon.cli.tree import action_text

    return [
        (f"#{action['seq']}", "dim"),
        (clean(action["timestamp"][:19].replace("T", " ")), "dim"),
        (f"{action['task_idx'] + 1}.{action['subtask_idx'] + 1}", ""),
        (f"epoch {action['epoch']}", "dim"),
        (clean(action["result"]), RESULT_STYLE.get(action["result"], "")),
        (f"{action['duration_s']:.2f} s", "dim"),
        (short(action_text(action), 120), ""),
    ]


def _loop_lines(entry: dict[str, Any]) -> list[Line]:
    from clew_daemon.cli.printable import clean, short

    escalated = f", escalated to the {entry['escalated_to']}" if entry["escalated_to"] else ""
    at = f"{entry['task_idx'] + 1}.{entry['subtask_idx'] + 1}"
    lines: list[Line] = [
        [
            (clean(entry["timestamp"][:19].replace("T", " ")), "dim"),
            (f"  {clean(entry['goal'])} {at}  ", ""),
            (clean(entry["kind"]), "bold magenta"),
            (f", attempt {entry['attempt_count']}{clean(escalated)}", ""),
        ],
    ]
    if entry["action_signature"]:
        lines.append([(f"    {short(entry['action_signature'], 160)}", "")])
    evidence = str(entry["evidence"] or "").splitlines()[:EVIDENCE_LINES]
    return lines + [[(f"    {short(line, 160)}", "dim")] for line in evidence]
