"""Commands that show goals: `status`, `history`, `show`, `context` and `logs`, with or without a daemon."""

import json
import select
import sys
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import asdict

import click

from clew_daemon.cli import parameters
from clew_daemon.cli.parameters import Shown, reading
from clew_daemon.reading import actions, output
from clew_daemon.reading.actions import Action
from clew_daemon.reading.errors import CliError
from clew_daemon.reading.instance import Instance
from clew_daemon.reading.log_tail import LINES_MAX, LogEntry, LogTail, entries_of, rotated
from clew_daemon.reading.output import RESULT_STYLE, Line, columns
from clew_daemon.reading.queries import all_goals, goal_state, one_goal
from clew_daemon.reading.sanitize import clean, short
from clew_daemon.record.goal_view import GoalList, OneGoal
from clew_daemon.record.goal_words import fresh_start
from clew_shared.record.moment import local

RECENT = 10  # how many goals that have ended the list shows
ARGS_CHARS = 120  # The length to which an action's arguments are shortened in its line; `clew show` has them whole
POLL_S = 0.2


@reading(
    parameters.optional_goal,
    parameters.limit(RECENT, " that have ended"),
    parameters.flag("--all", "every", "Show all that have ended."),
)
def status(instance: Instance, goal: str | None, limit: int, every: bool) -> Shown:
    """Show the goals that have not ended and the last that have, or one goal's tree and progress.

    Goals that need you come first, those that have ended last. In a tree: [ ] pending, [>] in progress,
    [x] completed, [!] failed, [#] blocked, [-] skipped.
    """
    view = one_goal(instance, goal) if goal else all_goals(instance, None if every else limit)
    return view, _status_lines(instance, view)


def _status_lines(instance: Instance, view: GoalList | OneGoal) -> Iterator[Line]:
    from clew_daemon.reading import goal_list
    from clew_daemon.reading.goal_text import goal_lines

    daemon = view["daemon"]
    holder = None if daemon else instance.holder
    yield from goal_list.daemon_lines(daemon) if daemon else [goal_list.no_daemon_line(holder)]
    if "goal" in view:
        report = instance.report_of(view["goal"]["id"])
        stopped = daemon is None and holder is None
        yield from goal_lines({**view["goal"], "stopped": stopped}, report=report)
    else:
        goals = goal_list.listed(view, holder)
        none = f"no goals yet; start one with `clew submit FILE`, or put a file into {instance.places.inbox}"
        yield from goal_list.inbox_lines(view.get("inbox") or ())
        yield from goal_list.overview(goals, width=output.room()) or [[(clean(none), "dim")]]
        yield from goal_list.left_out_lines(view)
        yield from goal_list.needs_lines(goals, view["left_out_failed"] or 0)


@reading(parameters.goal, parameters.limit())
def history(instance: Instance, goal: str, limit: int) -> Shown:
    """Show a goal's last actions, oldest first; `clew show` shows one of them in full."""
    from clew_daemon.record.goal_status import goal_detail

    outputs = click.get_current_context().params["as_json"]  # no line shows one
    found, more = actions.last_actions(instance, goal, limit, None, outputs)
    starts = goal_detail(goal_state(instance, goal), actions=False)["attempts"]
    rows = columns([_action_row(action, attempt=bool(starts)) for action in found])
    why = [[(clean(word + text), "dim")] for one in starts for word, text in fresh_start(one)]
    none: list[Line] = [[("no finished actions yet", "dim")]]
    shown = [*parameters.earlier_lines(more), *(rows or none), *why]
    return {"goal": goal, "actions": found, "more": more, "attempts": starts}, shown


def _action_row(action: Action, *, attempt: bool) -> Line:
    from clew_daemon.reading.goal_text import shown_action
    from clew_shared.text.words import ordinal, outcome

    run = f", {ordinal(action['run'])} run" if action.get("run", 1) > 1 else ""
    result = clean(outcome(action["result"]))
    return [
        (f"#{action['seq']}", "dim"),
        (clean(local(action["timestamp"])), "dim"),
        (actions.place(action), ""),
        (f"epoch {action['epoch']}", "dim"),
        *([(f"attempt {action['attempt']}", "dim")] if attempt else []),
        (f"{result}{run}", RESULT_STYLE.get(action["result"], "")),
        (actions.took(action) or "-", "dim"),
        (short(shown_action(action), ARGS_CHARS), ""),
    ]


SEQ_HELP = "As `clew history GOAL` lists it."


@reading(parameters.goal, click.argument("seq", type=parameters.SEQ, metavar="SEQ", help=SEQ_HELP))
def show(instance: Instance, goal: str, seq: int) -> Shown:
    """Show one action in full: arguments, verdict, result, time, and all of its output."""
    action = actions.whole_action(instance, goal, seq)
    hint = actions.hint_of(instance, goal, action)
    return {"goal": goal, "action": action}, actions.action_lines(goal, action, hint)


TURN_HELP = "Show the prompt of turn N instead, with what changed since the turn before."


@reading(parameters.goal, parameters.option("--turn", "N", TURN_HELP, type=click.IntRange(1)))
def context(instance: Instance, goal: str, turn: int | None) -> Shown:
    """Show exactly what the agent's LLM would be shown now, message by message, and its size."""
    from clew_daemon.reading import prompt_text
    from clew_shared.prompt.compact import compact_context

    if turn:
        found = prompt_text.inspected(instance, goal, turn)
        if found.turn != turn:
            raise CliError(f"{goal} has no turn {turn} yet; the next one is turn {found.turns}")
        return {"goal": goal, **asdict(found)}, prompt_text.turn_lines(found, whole=True)
    prompt, known = prompt_text.preview(instance, goal), instance.settings_for_display.context
    state = goal_state(instance, goal)
    text = compact_context(state, known.max_chars, recent_actions=known.recent_actions)
    lines: list[Line] = [[(f"-- {clean(prompt.note)}", "yellow")]] if prompt.note else []
    for role, said in prompt.said:
        lines += [[(f"== {role}", "bold")], [(clean(said, lines=True), "")]]
    lines += prompt_text.size_lines(prompt)
    return {"goal": goal, "context": text, "chars": len(text), **asdict(prompt)}, lines


LINES = click.IntRange(0, LINES_MAX)


@parameters.command(
    parameters.optional_goal,
    parameters.flag("-f", "--follow", "Follow new lines, until Ctrl-C."),
    click.option(
        "-n", "--lines", type=LINES, default=100, show_default=True, help="Number of lines."
    ),
    parameters.as_json,
)
def logs(instance: Instance, goal: str | None, follow: bool, lines: int, as_json: bool) -> None:
    """Show what the daemon did and why, from its log: as JSON lines in a pipe, with --json as one document."""
    if as_json and follow:
        raise click.UsageError("--json cannot be used with --follow")
    if not follow and not (instance.log_file.exists() or rotated(instance.log_file).exists()):
        why = "no daemon has run here, `[log] file` names another, or it was removed"
        hint = "under systemd, see also: journalctl --user -u clew -o cat"
        raise CliError(f"there is no log at {instance.log_file}: {why}\n{hint}")
    with closing(LogTail(instance.log_file)) as tail:
        last = list(entries_of(tail.last(), goal))
        entries = last[-lines:] if lines else []
        if as_json:
            output.print_json({"log": entries})
            return
        _print(entries)
        while follow:
            entries = list(entries_of(tail.added(), goal))
            _print(entries)
            _wait()


def _wait() -> None:
    """Wait for `POLL_S`; raise BrokenPipeError as soon as the reader of our output has ended."""
    reader = select.poll()
    with suppress(ValueError, OSError):  # no file descriptor: nothing to poll
        reader.register(sys.stdout.fileno(), 0)  # errors and hang-ups are always reported
    if reader.poll(POLL_S * 1000):
        raise BrokenPipeError


def _print(entries: list[LogEntry]) -> None:
    from clew_daemon.logs.look import pieces

    if output.on_terminal():
        output.print_lines(pieces(entry) for entry in entries)
    else:
        for entry in entries:
            print(json.dumps(entry), flush=True)
