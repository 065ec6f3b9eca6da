"""Looking at goals: `status`, `history`, `loops`, `context`.

`status` asks the daemon where one runs; all else is read from the ledger, beside the daemon.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from clew_daemon.cli import arguments

if TYPE_CHECKING:
    from clew_daemon.cli.output import Line
    from clew_daemon.cli.where import Where

EVIDENCE_LINES = 10
LINE_CHARS = 500
DAEMON_KEYS = ("pid", "version", "uptime_s", "ready")


@click.command()
@arguments.optional_goal
@arguments.as_json
@click.pass_obj
def status(where: Where, goal: str | None, as_json: bool) -> None:
    """Show all goals, or one goal's tree with its progress."""
    from clew_daemon.cli import tree
    from clew_daemon.cli.output import print_json, print_lines

    view = _one(where, goal) if goal is not None else _all(where)
    daemon = view["daemon"]
    if as_json:
        view["daemon"] = daemon and {**daemon, **{key: daemon.get(key) for key in DAEMON_KEYS}}
        print_json(view)
        return
    lines = tree.goal_lines(view["goal"]) if goal is not None else tree.overview(view["goals"])
    print_lines([tree.daemon_line(daemon), *lines])


@click.command()
@arguments.goal
@click.option(
    "--iterations",
    is_flag=True,
    help="The iteration records: each turn's calls and what was found.",
)
@arguments.as_json
@click.pass_obj
def history(where: Where, goal: str, iterations: bool, as_json: bool) -> None:
    """Show a goal's actions, oldest first."""
    from clew_daemon.cli.output import columns, print_json, print_lines

    if iterations:
        name, records = _reflected(where, goal)
        shown = {"goal": name, "iterations": records}
        rows, none = (
            [row for record in records for row in _record_rows(record)],
            "no iterations yet",
        )
    else:
        name, actions, _ = _recorded(where, goal)
        shown = {"goal": name, "actions": actions}
        rows, none = [_action_row(action) for action in actions], "no actions yet"
    if as_json:
        print_json(shown)
    else:
        print_lines(columns(rows) or [[(none, "dim")]])


@click.command()
@arguments.optional_goal
@arguments.as_json
@click.pass_obj
def loops(where: Where, goal: str | None, as_json: bool) -> None:
    """Show the loops that were detected, with the evidence."""
    from clew_daemon.cli.output import print_json, print_lines
    from clew_daemon.cli.record import goal_ids

    names = goal_ids(where) if goal is None else [goal]
    found: list[dict[str, Any]] = []
    for name in names:
        resolved, _, entries = _recorded(where, name)
        found += [{"goal": resolved, **entry} for entry in entries]
    found.sort(key=lambda entry: entry["timestamp"])
    if as_json:
        print_json({"loops": found})
    elif not found:
        print_lines([[("no loops", "dim")]])
    else:
        print_lines(line for entry in found for line in _loop_lines(entry))


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
    limit = max_chars or where.settings.context.max_chars
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


def _all(where: Where) -> dict[str, Any]:
    from clew_daemon.cli.client import ask

    answer = ask(where.socket, "status")
    if answer is not None:
        return dict(answer)
    from clew_daemon.cli.record import states
    from clew_shared.publish import status_view

    return {"daemon": None, "goals": [status_view(state) for state in states(where)]}


def _one(where: Where, goal: str) -> dict[str, Any]:
    from clew_daemon.cli.client import ask
    from clew_daemon.cli.record import named, state

    name = named(where, goal)
    answer = ask(where.socket, "status", goal=name)
    if answer is not None:
        return dict(answer)
    from clew_shared.publish import goal_detail

    return {"daemon": None, "goal": goal_detail(state(where, name))}


def _recorded(where: Where, goal: str) -> tuple[str, list[dict[str, Any]], list[dict[str, Any]]]:
    """Return a goal's full name, its actions and its loops."""
    from clew_daemon.cli.record import named, opened

    name = named(where, goal)
    with opened(where) as reader:
        if reader is None:
            return name, [], []
        from clew_daemon.store import history as recorded

        actions, entries = recorded(reader, name)
    return name, actions, entries


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


def _reflected(where: Where, goal: str) -> tuple[str, list[dict[str, Any]]]:
    """Return a goal's full name and its iteration records."""
    from clew_daemon.cli.record import named, opened
    from clew_shared import events as ev
    from clew_shared.iterations import KINDS, records_of

    name = named(where, goal)
    with opened(where) as reader:
        rows = () if reader is None else reader.read(name)
        return name, records_of(ev.decode(row.body) for row in rows if row.kind in KINDS)


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
