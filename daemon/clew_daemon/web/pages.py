"""The pages, one method for each: read, render. They run in threads, and change nothing.

What they show is what the commands show: the same views, in the same words.
"""

from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from functools import partial
from itertools import islice

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse
from starlette.routing import Route

from clew_daemon.logs.look import pieces, plain
from clew_daemon.reading.actions import Action, last_actions, timeline_of, whole_action
from clew_daemon.reading.diff import shown_diff
from clew_daemon.reading.errors import CliError
from clew_daemon.reading.goal_list import GoalView, in_view
from clew_daemon.reading.instance import Instance
from clew_daemon.reading.log_tail import LogEntry, LogTail, entries_of
from clew_daemon.reading.prompt_text import inspected
from clew_daemon.reading.queries import all_goals, goal_id, one_goal, open_ledger
from clew_daemon.reading.sanitize import clean
from clew_daemon.record import pages as record_pages
from clew_daemon.web.rendering import environment
from clew_shared.ledger.errors import SEQ_MAX

ENDED_SHOWN = 50
ACTIONS_SHOWN = 50
LOOPS_SHOWN = 20
REFUSALS_SHOWN = 8
LINES_SHOWN = 300
LINE_CHARS = 500
OUTPUT_SHOWN_CHARS = 100_000
ACTION = "/goals/{goal}/actions/{seq:int}"
Values = Mapping[str, object]
"""What a template shows, by its names."""


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
            "/new": self.new,
        }
        shown = [Route(path, partial(self._shown, page)) for path, page in pages.items()]
        return [*shown, Route(f"{ACTION}/output", self.output)]

    def goals(self, request: Request) -> Values:
        """Show all goals that have not ended and the last that have: first what needs a person."""
        before = request.query_params.get("before")
        found = all_goals(self._instance, ENDED_SHOWN, before)
        stopped = {"stopped": found["daemon"] is None}
        goals = [{**goal, **stopped} for goal in in_view(found["goals"])]
        return {
            "goals": goals,
            "needs": [goal for goal in goals if goal["needs_person"]],
            "rejected": [one for one in found["inbox"] if one["rejected"]],
            "more": found["more"],
            "before": before,
        }

    def goal(self, request: Request) -> Values:
        """Show a goal, the latest first: what it does, has done, was refused, costs and asks; its tree and timeline."""
        goal, before = self._goal(request), number(request.query_params.get("before"))
        timeline, refusals = timeline_of(self._instance, goal["id"], goal["ended_at"])
        actions, more = last_actions(self._instance, goal["id"], ACTIONS_SHOWN, before)
        with open_ledger(self._instance) as reader:
            loops, _ = record_pages.loops(reader, goal["id"], LOOPS_SHOWN)
        return {
            "goal": goal,
            "timeline": timeline,
            "refusals": refusals[: -REFUSALS_SHOWN - 1 : -1],
            "loops": loops[::-1],
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
            lines = [_log_line(one) for one in islice(found, LINES_SHOWN)]
        return {"lines": lines, "goal": goal, "text": text}

    def new(self, _: Request) -> Values:
        """Show the form for a new goal."""
        names: list[str] = []
        with suppress(CliError):
            names = sorted(self._instance.settings_for_display.agents.names)
        return {"agents": names}

    def notice(self, request: Request, error: Exception) -> HTMLResponse:
        """Say what is wrong."""
        status = error.status_code if isinstance(error, HTTPException) else 404
        message = error.message if isinstance(error, CliError) else "There is no such page."
        return self._rendered(request, "notice", {"message": message}, status)

    def _goal(self, request: Request) -> GoalView:
        goal = goal_id(self._instance, request.path_params["goal"])
        found = one_goal(self._instance, goal)
        return {**found["goal"], "stopped": found["daemon"] is None}

    def _action(self, request: Request) -> tuple[GoalView, Action]:
        goal, seq = self._goal(request), request.path_params["seq"]
        if seq > SEQ_MAX:
            raise CliError(f"there is no action #{seq}")
        return goal, whole_action(self._instance, goal["id"], seq)

    def _shown(self, page: Callable[[Request], Values], request: Request) -> HTMLResponse:
        return self._rendered(request, page.__name__, page(request), 200)

    def _rendered(
        self, request: Request, template: str, values: Values, status: int
    ) -> HTMLResponse:
        base = {
            "base": request.scope.get("root_path", ""),
            "read_only": self._read_only,
            "running": self._instance.holder is not None,
        }
        text = environment().get_template(f"{template}.html").render(**base, **values)
        return HTMLResponse(text.encode("utf-8", "replace"), status)


def _log_line(entry: LogEntry) -> dict[str, str]:
    at, level, event, _, rest = (text.strip() for text, _ in pieces(entry))
    goal = str(entry.get("goal") or "")
    rest = rest if len(rest) <= LINE_CHARS else f"{rest[:LINE_CHARS]}…"
    return {"at": at, "level": level, "event": event, "goal": goal, "rest": rest}


def number(text: str | None) -> int | None:
    """Return the number in a query, None where there is none."""
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 18 else None
