"""`clew history` and `clew show`: a goal's actions, or its iteration records, as the ledger has them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click

from clew_daemon.cli import parameters
from clew_daemon.reading import actions, output
from clew_daemon.reading.actions import Action
from clew_daemon.reading.goal_text import shown_action
from clew_daemon.reading.instance import Instance
from clew_daemon.reading.output import RESULT_STYLE, Line, columns
from clew_daemon.reading.queries import goal_state, open_ledger
from clew_daemon.reading.sanitize import clean, short
from clew_shared.record.moment import local
from clew_shared.text.words import ordinal

ARGS_CHARS = 120
"""The length to which an action's arguments are shortened in its line; `clew show` has them whole."""


@click.command()
@parameters.goal
@parameters.limit()
@parameters.before("actions before this one")
@click.option("--iterations", is_flag=True, help="Show what was found in each turn instead.")
@parameters.as_json
@click.pass_obj
def history(
    instance: Instance, goal: str, limit: int, before: int, iterations: bool, as_json: bool
) -> None:
    """Show a goal's last actions, oldest first; `clew show` shows one of them in full."""
    found: Sequence[Action]
    if iterations:
        found, more = _iterations(instance, goal, limit, before)
    else:
        found, more = actions.last_actions(instance, goal, limit, before, outputs=as_json)
    what = "iterations" if iterations else "actions"
    value = {"goal": goal, what: found, "more": more}
    output.show(value, _lines(instance, goal, what, found, more=more), as_json=as_json)


def _lines(
    instance: Instance, goal: str, what: str, found: Sequence[Action], *, more: bool
) -> Iterator[Line]:
    if not found:
        yield _none_yet(instance, goal, what)
        return
    first, option = found[0].get("seq", found[0].get("iteration")), ""
    if what == "iterations":
        rows, option = [row for one in found for row in _iteration_rows(one)], "--iterations "
    else:
        again = any(one.get("attempt", 1) > 1 for one in found)
        rows = [_action_row(action, attempt=again) for action in found]
    command = f"clew history {goal} {option}--before {first}"
    yield from parameters.earlier_lines(more, what, command)
    yield from columns(rows)


def _none_yet(instance: Instance, goal: str, what: str) -> Line:
    """Return a line saying that there are no actions or iterations yet, and which action is running."""
    flights = list(goal_state(instance, goal).in_flight.values()) if what == "actions" else []
    if not flights:
        return [(f"no {what} yet", "dim")]
    running = "running" if instance.holder is not None else "begun before the daemon ended"
    last = flights[-1]
    action = short(shown_action({"name": last.action.name, "args": last.action.args}), ARGS_CHARS)
    show = f"clew show {clean(goal)} {last.seq}"
    return [(f"no finished actions yet; {running}: #{last.seq} {action} ({show})", "dim")]


def _iterations(
    instance: Instance, goal: str, limit: int | None, before: int | None
) -> tuple[Sequence[Action], bool]:
    from clew_daemon.record.iterations import IterationFold
    from clew_daemon.record.store import catch_up

    with open_ledger(instance) as reader:
        records = list(catch_up(IterationFold(), reader, goal))
    found = [one for one in records if before is None or one["iteration"] < before]
    shown = found if limit is None else found[-limit:]
    return shown, len(shown) < len(found)


def _iteration_rows(record: Mapping[str, Any]) -> Iterator[Line]:
    """Yield a row for each call of an iteration: what was done and what was found."""
    from clew_shared.prompt import reasoning

    lines = [record["synthesis"] or "no action"]
    if calls := record["tool_calls"]:
        told = ("insights", "learning", "outcome", "raw_output")
        lines = [
            reasoning.reasoning_line(
                reasoning.did(call["tool"], call["params"]),
                reasoning.found(*(call[key] for key in told)),
            )
            for call in calls
        ]
    for line in lines:
        yield [
            (f"iteration {record['iteration']}", ""),
            (clean(local(record["timestamp"])), "dim"),
            (clean(record["progress_assessment"]), "dim"),
            (clean(line), ""),
        ]


def _action_row(action: Action, *, attempt: bool) -> Line:
    run = f", {ordinal(action['run'])} run" if action.get("run", 1) > 1 else ""
    return [
        (f"#{action['seq']}", "dim"),
        (clean(local(action["timestamp"])), "dim"),
        (actions.place(action), ""),
        (f"epoch {action['epoch']}", "dim"),
        *([(f"attempt {action['attempt']}", "dim")] if attempt else []),
        (f"{clean(action['result'])}{run}", RESULT_STYLE.get(action["result"], "")),
        (actions.took(action) or "-", "dim"),
        (short(shown_action(action), ARGS_CHARS), ""),
    ]


@click.command()
@parameters.goal
@click.argument("seq", type=parameters.SEQ, metavar="SEQ", help="As `clew history GOAL` lists it.")
@parameters.as_json
@click.pass_obj
def show(instance: Instance, goal: str, seq: int, as_json: bool) -> None:
    """Show one action in full: arguments, verdict, result, time, and all of its output."""
    action = actions.whole_action(instance, goal, seq)
    lines = actions.action_lines(goal, action)
    output.show({"goal": goal, "action": action}, lines, as_json=as_json)
