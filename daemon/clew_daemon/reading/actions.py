"""A goal's actions: the last ones, one in full, all in a timeline, as `clew show`, `top` and the pages show them."""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from clew_daemon.reading.errors import CliError
from clew_daemon.reading.instance import Instance
from clew_daemon.reading.output import INDENT, RESULT_STYLE, Line, paragraph
from clew_daemon.reading.queries import goal_state, ledger_if_any, open_ledger
from clew_daemon.reading.sanitize import clean

if TYPE_CHECKING:
    from clew_daemon.record.timeline import RefusedAction, Timeline

CHANGED = {True: "changed", False: "not changed"}

Action = Mapping[str, Any]  # a line of history.jsonl, or all of an action (`pages.whole_action`)


Page = tuple[Sequence[Action], bool]  # some of them, and whether there are earlier ones


def last_actions(
    instance: Instance, goal: str, limit: int | None, before: int | None, outputs: bool = True
) -> Page:
    """Return a goal's last actions, oldest first, and whether there are earlier ones; see `record.pages.actions`."""
    from clew_daemon.record import pages

    with ledger_if_any(instance) as reader:
        if reader is None:
            return [], False
        return pages.actions(reader, goal, limit, before, outputs=outputs)


def whole_action(instance: Instance, goal: str, seq: int) -> Action:
    """Return all that is recorded of one action; CliError where the goal has no such action."""
    from clew_daemon.record import pages

    with ledger_if_any(instance) as reader:
        action = None if reader is None else pages.whole_action(reader, goal, seq)
    if action is None:
        raise CliError(f"{goal} has no action #{seq}; `clew history {goal}` lists them")
    return action


def timeline_of(
    instance: Instance, goal: str, ended_at: str | None
) -> tuple[Timeline, tuple[RefusedAction, ...]]:
    """Return a goal's timeline and its last refusals, oldest first; `ended_at` as in its view."""
    from clew_daemon.record.store import catch_up
    from clew_daemon.record.timeline import TimelineFold, timeline

    fold = TimelineFold()
    until = datetime.fromisoformat(ended_at).timestamp() if ended_at else time.time()
    with open_ledger(instance) as reader:
        deque(catch_up(fold, reader, goal), maxlen=0)
    return timeline(fold, until), tuple(fold.refusals)


def place(action: Action) -> str:
    """Return the number of an action's subtask in the tree, as in `1.2`."""
    return f"{action['task_idx'] + 1}.{action['subtask_idx'] + 1}"


def took(action: Action) -> str:
    """Return the time that an action took, "" where it took none or that is not known."""
    seconds = action["duration_s"]
    is_known = action["result"] not in ("blocked", "interrupted") or seconds
    return f"{seconds:.2f} s" if is_known and seconds is not None else ""


def verdict(action: Action) -> str:
    """Return what was decided on an action, in words."""
    from clew_shared.text.words import refusal

    if action["verdict"] == "blocked":
        return f"refused: {refusal(action['reason'])}"
    return str(action["verdict"])


def hint_of(instance: Instance, goal: str, action: Action) -> str:
    """Return in a line that the sandbox may be why an action failed, "" where nothing says so."""
    from clew_daemon.host.hidden import hidden

    if action["result"] not in ("failure", "error"):
        return ""
    workspace, settings = goal_state(instance, goal).spec.workspace, instance.settings_for_display
    return hidden(action["output"] or "", workspace, instance.places, settings.sandbox)


def action_lines(goal: str, action: Action, hint: str = "") -> list[Line]:
    """Return the lines of an action; its whole output comes last, `hint` is why it may have failed."""
    from clew_shared.record.moment import local
    from clew_shared.text.words import cut_off, ordinal, outcome

    result, is_refused = action["result"] or "", action["verdict"] == "blocked"
    is_cut_off = result == "interrupted"
    facts = {
        "goal": f"{goal}, subtask {place(action)}, epoch {action['epoch']}",
        "time": local(action["timestamp"]),
        "duration": took(action),
        "exit code": "" if action["exit_code"] is None else str(action["exit_code"]),
        "workspace": CHANGED.get(action["changed"], ""),
        "changed": ", ".join(action["paths"]),
        "run": "" if action["run"] == 1 else f"{ordinal(action['run'])} of this action",
        "rationale": action["rationale"],
        "verdict": verdict(action),
        "signature": action["signature"] if is_refused else "",
        "interrupted": f"{cut_off(action['reason'])}; its effect is unknown" if is_cut_off else "",
        "the agent was told": action["message"],
        "perhaps": hint,
    }
    head = (f"#{action['seq']}  {clean(action['name'])}  ", "bold")
    lines: list[Line] = [[head, (outcome(result), RESULT_STYLE.get(result, ""))]]
    for name, value in facts.items():
        lines += paragraph(f"{name}: ", value) if value else []
    lines.append([("arguments:", "bold")])
    for name, value in action["args"].items():
        shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        first, *rest = _lines_of(shown) or [""]
        lines.append([(f"{INDENT}{clean(name)}: ", "bold"), ("" if rest else first, "")])
        lines += [[(f"{INDENT * 2}{line}", "")] for line in ([first, *rest] if rest else ())]
    if action["result"] in (None, "blocked"):
        return lines
    output = _lines_of(action["output"])
    if not output:
        return [*lines, [("output: ", "bold"), ("none", "dim")]]
    return [*lines, [("output:", "bold")], *([(f"{INDENT}{line}", "")] for line in output)]


def _lines_of(text: str) -> list[str]:
    if not text:
        return []
    return clean(text.replace("\r\n", "\n").expandtabs(), lines=True).rstrip("\n").split("\n")
