"""What the screens show, read as the commands read it; all of this blocks, so screens call it in threads."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from clew_daemon.cli.commands.show import action_lines
from clew_daemon.cli.commands.status import all_goals, one_goal
from clew_daemon.control.requests import ControlRequest
from clew_daemon.publish.standing import PAUSED, standing
from clew_daemon.reading.client import send
from clew_daemon.reading.daemon_text import inbox_lines
from clew_daemon.reading.errors import CliError
from clew_daemon.reading.goal_list import goal_cells
from clew_daemon.reading.goal_text import closing_lines, goal_lines, shown_action
from clew_daemon.reading.instance import Instance
from clew_daemon.reading.output import RESULT_STYLE, Line
from clew_daemon.reading.queries import ledger_if_any
from clew_daemon.reading.sanitize import clean, short
from clew_daemon.record.timeline import TimelineFold
from clew_shared.record.moment import local

ENDED_SHOWN = 200
ACTIONS_SHOWN = 200
QUESTIONS_SHOWN = 10
OUTPUT_CHARS = 200_000
_RANK = {PAUSED: 1, "in_progress": 2, "waiting": 3, "queued": 4}


@dataclass(frozen=True, slots=True)
class GoalRow:
    """A goal in the list, with the cells of `clew status`; `needs_you` if only a person can continue it."""

    id: str
    cells: Line
    rank: int
    refused: tuple[str, ...]

    @property
    def needs_you(self) -> bool:
        return self.rank == 0


@dataclass(frozen=True, slots=True)
class GoalList:
    """The goals, and for the first ones that need a person, by id, what they ask and the command that answers.

    `inbox` are lines on files of the inbox that are no goals.
    """

    rows: list[GoalRow]
    questions: dict[str, list[Line]]
    inbox: list[Line]


@dataclass(frozen=True, slots=True)
class ActionRow:
    """An action in the list of a goal: its number, and a cell for each column."""

    seq: int
    cells: Line


@dataclass(frozen=True, slots=True)
class GoalPage:
    """A goal in full, what it asks a person, and its last actions, the latest first."""

    question: list[Line]
    lines: list[Line]
    actions: list[ActionRow]


class HomeReader:
    """Reads one instance of clew, and sends requests to its daemon. All raise CliError."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance

    @property
    def ledger_file(self) -> tuple[int, int]:
        """Which file the ledger is now; a restored one is another."""
        try:
            found = self.instance.ledger.stat()
        except OSError:
            return 0, 0
        return found.st_dev, found.st_ino

    def goals(self) -> GoalList:
        """Return the goals, those that need a person first, then those at work, then by their acceptance."""
        at = time.time()
        found = all_goals(self.instance, ENDED_SHOWN, None)
        rows = [goal_row(goal, at) for goal in found["goals"]]
        rows.reverse()
        rows.sort(key=lambda row: row.rank)
        asking = [row.id for row in rows if row.needs_you][:QUESTIONS_SHOWN]
        questions = {goal: self._question(goal) for goal in asking}
        return GoalList(rows, questions, inbox_lines(found.get("inbox") or ()))

    def _question(self, goal: str) -> list[Line]:
        detail = self.detail(goal)
        return closing_lines(detail) if detail.get("needs_person") else []

    def detail(self, goal: str) -> dict[str, Any]:
        """Return the entry of `clew status GOAL --json`."""
        found: dict[str, Any] = one_goal(self.instance, goal)["goal"]
        return found

    def goal(self, detail: Mapping[str, Any]) -> GoalPage:
        """Return one goal in full, given its entry."""
        goal: str = detail["id"]
        lines = goal_lines(detail, report=self.instance.report_of(goal), at=time.time())
        question = closing_lines(detail) if detail.get("needs_person") else []
        return GoalPage(question, lines, self._actions(goal, detail["in_flight"]))

    def timeline(self, goal: str, known: TimelineFold) -> None:
        """Bring what a goal's timeline is made of up to date."""
        from clew_daemon.record.store import catch_up

        with ledger_if_any(self.instance) as reader:
            if reader is not None:
                deque(catch_up(known, reader, goal), maxlen=0)

    def _actions(self, goal: str, running: Iterable[dict[str, Any]]) -> list[ActionRow]:
        from clew_daemon.record import pages

        with ledger_if_any(self.instance) as reader:
            if reader is None:
                return []
            found, _ = pages.actions(reader, goal, ACTIONS_SHOWN, outputs=False)
        rows = {one["seq"]: _action_row(one) for one in found}
        rows |= {one["seq"]: _running_row(one) for one in running if one["seq"] not in rows}
        return [rows[seq] for seq in sorted(rows, reverse=True)]

    def action(self, goal: str, seq: int) -> list[Line]:
        """Return one action in full; of a very long output the beginning."""
        from clew_daemon.record import pages

        with ledger_if_any(self.instance) as reader:
            found = None if reader is None else pages.whole_action(reader, goal, seq)
        if found is None:
            raise CliError(f"{goal} has no action #{seq}")
        output = found["output"] or ""
        if len(output) <= OUTPUT_CHARS:
            return action_lines(goal, found)
        more = f"… and {len(output) - OUTPUT_CHARS:,} more characters: clew show {goal} {seq}"
        cut = {**found, "output": output[:OUTPUT_CHARS]}
        return [*action_lines(goal, cut), [(clean(more), "dim")]]

    def send(self, request: ControlRequest) -> str:
        """Send a request on one goal, and return what has become of it."""
        answer = send(self.instance.socket, request)
        return clean(str(answer.get("said") or answer["status"]))


def goal_row(goal: dict[str, Any], at: float) -> GoalRow:
    """Return the row of a goal from its entry; `at` is now, in seconds since 1970."""
    status = standing(goal)
    return GoalRow(
        id=goal["id"],
        cells=goal_cells(goal, at),
        rank=0 if goal.get("needs_person") else _RANK.get(status, len(_RANK) + 1),
        refused=tuple(goal["blocked_actions"]),
    )


def _action_row(action: dict[str, Any]) -> ActionRow:
    result = str(action["result"])
    duration = action["duration_s"]
    return ActionRow(
        action["seq"],
        [
            (f"#{action['seq']}", ""),
            (local(action["timestamp"])[-8:], "dim"),
            (result, RESULT_STYLE.get(result, "")),
            ("" if duration is None else f"{duration:.1f} s", "dim"),
            (short(shown_action(action), 300), ""),
        ],
    )


def _running_row(action: dict[str, Any]) -> ActionRow:
    text = short(shown_action(action), 300)
    cells = [
        (f"#{action['seq']}", ""),
        ("", ""),
        ("running", "cyan"),
        ("", ""),
        (text, ""),
    ]
    return ActionRow(action["seq"], cells)
