"""The pages, one method for each: read, render. They run in threads, and change nothing.

What they show is what the commands show: the same views, in the same words. Every value that a template prints is
cleaned and escaped here, so that no template can forget it: what an agent wrote is never markup, and neither terminal
escapes nor right-to-left marks change how a line looks.
"""

import json
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from datetime import datetime
from functools import cache, partial
from itertools import islice
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route

from clew_daemon.logs.look import pieces, plain
from clew_daemon.reading import actions
from clew_daemon.reading.actions import Action, last_actions, timeline_of, whole_action
from clew_daemon.reading.client import changes_of, command_of
from clew_daemon.reading.diff import shown_diff
from clew_daemon.reading.errors import CliError
from clew_daemon.reading.goal_list import doing, listed, now_text
from clew_daemon.reading.goal_text import changed_text, shown_action
from clew_daemon.reading.instance import Instance
from clew_daemon.reading.log_tail import LogTail, entries_of
from clew_daemon.reading.prompt_text import inspected
from clew_daemon.reading.queries import all_goals, goal_id, one_goal
from clew_daemon.reading.sanitize import clean, short
from clew_daemon.record.goal_view import GoalDetail, standing
from clew_daemon.record.goal_words import checks, facts, fresh_start, tree, unchecked
from clew_shared.ledger.errors import SEQ_MAX
from clew_shared.record.moment import iso, local, roughly
from clew_shared.text import words
from clew_shared.text.plain import percent
from clew_shared.text.shorten import is_told

HERE = Path(__file__).parent
STATIC = HERE / "static"
ENDED_SHOWN, ACTIONS_SHOWN, REFUSALS_SHOWN = 50, 50, 8
LINES_SHOWN, LINE_CHARS, OUTPUT_SHOWN_CHARS = 300, 500, 100_000
ACTION = "/goals/{goal}/actions/{seq:int}"
Values = Mapping[str, object]  # what a template shows, by its names


def ago(at: float) -> str:
    """Return how long ago a moment was, in its largest unit; "" for none."""
    return roughly(max(0.0, time.time() - at)) if at else ""


def clock(at: float | str) -> str:
    """Return the local time of day of a moment."""
    return local(at).rpartition(" ")[2]


def seconds(at: str) -> float:
    """Return a moment of a view in seconds since 1970."""
    return datetime.fromisoformat(at).timestamp()


FILTERS: tuple[Callable[..., Any], ...] = (
    *(ago, clock, seconds, short, percent, standing, doing, is_told, changes_of, command_of),
    *(tree, checks, unchecked, facts, fresh_start, actions.verdict, actions.took, actions.place),
    *(words.ending, words.outcome, words.thousands, words.times),
)  # by their own names


@cache
def environment() -> Environment:
    """Return the templates."""
    made = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {one.__name__: one for one in FILTERS}
    made.filters |= {"now": lambda goal: now_text(goal, time.time()), "json": json.dumps}
    made.filters |= {"moment": iso, "changed": changed_text, "text": shown_action}
    made.globals |= {"counted": words.counted}
    return made


def _shown(value: Any) -> Any:
    if isinstance(value, Markup) or not isinstance(value, str):
        return value
    return clean(value.replace("\r\n", "\n").expandtabs(4), lines=True)


class Pages:
    """The pages of an instance: each method returns what its template shows."""

    def __init__(self, instance: Instance, *, read_only: bool) -> None:
        self._instance = instance
        self._read_only = read_only

    def routes(self) -> list[Route]:
        """Return the route of each page, and that of the whole output of an action."""
        pages = {
            "/": self.goals,
            "/goals/{goal}": self.goal,
            ACTION: self.action,
            "/goals/{goal}/changes": self.changes,
            "/goals/{goal}/prompt": self.prompt,
            "/log": self.log,
        }
        shown = [Route(path, partial(self._shown, page)) for path, page in pages.items()]
        return [*shown, Route(f"{ACTION}/output", self.output)]

    def goals(self, _: Request) -> Values:
        """Show all goals that have not ended and the last that have: first what needs a person."""
        found = all_goals(self._instance, ENDED_SHOWN)
        goals = listed(found, self._instance.holder)
        return {
            "goals": goals,
            "needs": [goal for goal in goals if goal["needs_person"]],
            "rejected": [one for one in found["inbox"] if one["rejected"]],
            "more": found["more"],
        }

    def goal(self, request: Request) -> Values:
        """Show a goal, the latest first: what it does, has done, was refused, costs and asks; its tree and timeline."""
        goal, before = self._goal(request), number(request.query_params.get("before"))
        timeline, refusals = timeline_of(self._instance, goal["id"], goal["ended_at"])
        actions, more = last_actions(self._instance, goal["id"], ACTIONS_SHOWN, before)
        return {
            "goal": goal,
            "timeline": timeline,
            "refusals": refusals[: -REFUSALS_SHOWN - 1 : -1],
            "actions": actions[::-1],
            "more": more,
            "before": before,
        }

    def action(self, request: Request) -> Values:
        """Show one action in full."""
        goal, found = self._action(request)
        output = found["output"] or ""
        hidden = max(0, len(output) - OUTPUT_SHOWN_CHARS)
        shown = output[:OUTPUT_SHOWN_CHARS]
        return {"goal": goal, "action": found, "output": shown, "hidden": hidden}

    def output(self, request: Request) -> PlainTextResponse:
        """Send the whole output of an action as plain text."""
        _, found = self._action(request)
        text = clean(found["output"] or "", lines=True)
        return PlainTextResponse(text.encode("utf-8", "replace"))

    def changes(self, request: Request) -> Values:
        """Show which files a goal has changed, and the difference."""
        goal = self._goal(request)
        return {"goal": goal, "changed": shown_diff(self._instance, goal["id"])}

    def prompt(self, request: Request) -> Values:
        """Show the prompt of a turn, with the difference to the one before."""
        goal, turn = self._goal(request), number(request.query_params.get("turn"))
        return {"goal": goal, "prompt": inspected(self._instance, goal["id"], turn)}

    def log(self, request: Request) -> Values:
        """Show the last lines of the log that contain a text (in whatever case), the latest first."""
        goal, text = request.query_params.get("goal", ""), request.query_params.get("q", "")
        with closing(LogTail(self._instance.log_file)) as tail:
            entries = entries_of(reversed(tail.last()), goal or None)
            found = (one for one in entries if text.casefold() in plain(one).casefold())
            shown = list(islice(found, LINES_SHOWN))
        lines = []
        for entry in shown:
            at, level, event, _, rest = (text.strip() for text, _ in pieces(entry))
            rest = rest if len(rest) <= LINE_CHARS else f"{rest[:LINE_CHARS]}…"
            of = str(entry.get("goal") or "")
            lines.append({"at": at, "level": level, "event": event, "goal": of, "rest": rest})
        return {"lines": lines, "goal": goal, "text": text}

    def notice(self, request: Request, error: Exception) -> Response:
        """Say what is wrong."""
        status = error.status_code if isinstance(error, HTTPException) else 404
        message = error.message if isinstance(error, CliError) else "There is no such page."
        return self._rendered(request, "notice", {"message": message}, status)

    def _goal(self, request: Request) -> GoalDetail:
        goal = goal_id(self._instance, request.path_params["goal"])
        found = one_goal(self._instance, goal)
        stopped = found["daemon"] is None and self._instance.holder is None
        return {**found["goal"], "stopped": stopped}

    def _action(self, request: Request) -> tuple[GoalDetail, Action]:
        goal, seq = self._goal(request), request.path_params["seq"]
        if seq > SEQ_MAX:
            raise CliError(f"there is no action #{seq}")
        return goal, whole_action(self._instance, goal["id"], seq)

    def _shown(self, page: Callable[[Request], Values], request: Request) -> Response:
        return self._rendered(request, page.__name__, page(request), 200)

    def _rendered(self, request: Request, template: str, values: Values, status: int) -> Response:
        runs, base = self._instance.holder is not None, request.scope.get("root_path", "")
        page = environment().get_template(f"{template}.html")
        text = page.render(base=base, read_only=self._read_only, running=runs, **values)
        return HTMLResponse(text.encode("utf-8", "replace"), status)


def number(text: str | None) -> int | None:
    """Return the number in a query, None where there is none."""
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 18 else None
