"""The pages, one method for each: read, make the view, render. They run in threads, and change nothing."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from starlette.responses import HTMLResponse, PlainTextResponse

from clew_daemon.cli.commands.diff.listing import changed_files
from clew_daemon.inbox.leftovers import left
from clew_daemon.reading.errors import CliError
from clew_daemon.reading.prompt_preview import inspected
from clew_daemon.reading.sanitize import clean
from clew_daemon.record import pages as record_pages
from clew_daemon.record.timeline import timeline
from clew_daemon.web.goal_page import action_row, buttons, goal_row, in_short
from clew_daemon.web.record import ACTIONS_SHOWN, LOOPS_SHOWN, Record, last_actions
from clew_daemon.web.rendering import page
from clew_shared.ledger import SEQ_MAX
from clew_shared.record.moment import local

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from starlette.requests import Request

    from clew_daemon.reading.instance import Instance


READ_BYTES = 4 << 20
LINES_SHOWN = 300
TEXT_CHARS = 500
_HEAD = ("timestamp", "level", "event", "goal", "epoch", "seq")


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line of the log: `rest` is everything besides its head, as `key=value`."""

    at: str
    level: str
    event: str
    goal: str
    rest: str


def last_lines(path: Path, text: str, goal: str) -> list[LogLine]:
    """Return the last lines that contain a text (in whatever case) and are about a goal, the latest first."""
    wanted, found = text.casefold(), list[LogLine]()
    for raw in reversed(_tail(path)):
        if wanted and wanted not in raw.decode("utf-8", "replace").casefold():
            continue
        line = _line(raw)
        if goal and line.goal != goal:
            continue
        found.append(line)
        if len(found) == LINES_SHOWN:
            break
    return found


def _tail(path: Path) -> list[bytes]:
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - READ_BYTES))
            lines = file.read(READ_BYTES).splitlines()
    except OSError:
        return []
    return lines[1:] if size > READ_BYTES else lines


def _line(raw: bytes) -> LogLine:
    try:
        entry: Any = json.loads(raw)
    except ValueError:
        entry = None
    if not isinstance(entry, dict):  # a torn line, after a full disk or a power cut
        return LogLine("", "warning", raw[:TEXT_CHARS].decode("utf-8", "replace"), "", "")
    rest = " ".join(_words(entry))
    return LogLine(
        local(str(entry.get("timestamp", ""))),
        str(entry.get("level", "")),
        str(entry.get("event", "")),
        str(entry.get("goal", "")),
        rest if len(rest) <= TEXT_CHARS else f"{rest[:TEXT_CHARS]}…",
    )


def _words(entry: dict[str, Any]) -> Iterator[str]:
    for key in ("epoch", "seq"):
        if entry.get(key):
            yield f"{key}={entry[key]}"
    for key, value in entry.items():
        if key not in _HEAD:
            shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            yield f"{key}={shown}"


OUTPUT_SHOWN_CHARS = 100_000
REFUSALS_SHOWN = 8


class Pages:
    """The pages of an instance; each method answers one route."""

    def __init__(self, instance: Instance, *, read_only: bool) -> None:
        self._instance = instance
        self._read_only = read_only
        self._record = Record(instance)

    def goals(self, request: Request) -> HTMLResponse:
        """Show all goals that have not ended and the last that have: first what needs a person."""
        before, now = request.query_params.get("before"), time.time()
        running = self._running
        with self._record.opened() as reader:
            states, more = self._record.goals(reader, before)
            rows = [goal_row(state, now, running=running) for state in states]
        needs = sorted((row.need for row in rows if row.need), key=lambda one: one.since)
        waiting = {one.goal for one in needs}
        rejected = [
            one for one in left(self._instance.places.inbox).view()["inbox"] if one["rejected"]
        ]
        values = {"needs": needs, "rows": rows, "waiting": waiting, "more": more, "before": before}
        return self._page(request, "goals.html", rejected=rejected, **values)

    def goal(self, request: Request) -> HTMLResponse:
        """Show a goal: what it does, has done, was refused, costs and asks; its tree, timeline and last actions."""
        goal, now = request.path_params["goal"], time.time()
        before = number(request.query_params.get("before"))
        with self._record.opened() as reader:
            state = self._record.state(reader, goal)
            assert reader is not None  # noqa: S101 - there is no state without one
            known = self._record.timeline(reader, goal)
            actions, more = last_actions(reader, goal, before)
            loops, _ = record_pages.loops(reader, goal, LOOPS_SHOWN)
            end = state.ended_at if state.ended else now
            return self._page(
                request,
                "goal.html",
                state=state,
                row=goal_row(state, now, running=self._running),
                buttons=buttons(state),
                timeline=timeline(known, end),
                refusals=list(known.refusals)[: -REFUSALS_SHOWN - 1 : -1],
                loops=loops[::-1],
                actions=[action_row(one) for one in actions],
                more=more,
                before=before,
                running_actions=list(state.in_flight.values()),
            )

    def action(self, request: Request) -> HTMLResponse:
        """Show one action in full."""
        goal, seq = request.path_params["goal"], request.path_params["seq"]
        if seq > SEQ_MAX:
            raise CliError(f"{goal} has no action #{seq}")
        with self._record.opened() as reader:
            state = self._record.state(reader, goal)
            assert reader is not None  # noqa: S101 - there is no state without one
            found = record_pages.whole_action(reader, goal, seq)
        if found is None:
            raise CliError(f"{goal} has no action #{seq}")
        output = found["output"] or ""
        return self._page(
            request,
            "action.html",
            state=state,
            action=found,
            args={
                name: value if isinstance(value, str) else in_short({name: value})
                for name, value in found["args"].items()
            },
            output=output[:OUTPUT_SHOWN_CHARS],
            hidden=max(0, len(output) - OUTPUT_SHOWN_CHARS),
            blocked=found["signature"] in state.blocked_actions,
        )

    def output(self, request: Request) -> PlainTextResponse:
        """Send the whole output of an action as plain text."""
        text = self._record.output(request.path_params["goal"], request.path_params["seq"])
        return PlainTextResponse(clean(text, lines=True).encode("utf-8", "replace"))

    def changes(self, request: Request) -> HTMLResponse:
        """Show which files a goal has changed, and the difference."""
        goal = request.path_params["goal"]
        with self._record.opened() as reader:
            state = self._record.state(reader, goal)
        found = changed_files(self._instance, goal)
        return self._page(request, "changes.html", state=state, changed=found)

    def prompt(self, request: Request) -> HTMLResponse:
        """Show the prompt of a turn, with the difference to the one before."""
        goal = request.path_params["goal"]
        with self._record.opened() as reader:
            state = self._record.state(reader, goal)
        wanted = number(request.query_params.get("turn"))
        found = inspected(self._instance, goal, wanted)
        return self._page(request, "prompt.html", state=state, prompt=found)

    def playbook(self, request: Request) -> HTMLResponse:
        """Show the strategies, each with its credit."""
        from clew_daemon.cli.commands.playbook import playbook_of

        known = playbook_of(self._instance)
        sections: dict[str, list[Any]] = {}
        for one in known.bullets():
            sections.setdefault(one.section, []).append(one)
        archived = known.archived()
        return self._page(request, "playbook.html", sections=sections, archived=archived)

    def log(self, request: Request) -> HTMLResponse:
        """Show the last lines of the log that contain a text."""
        goal, text = request.query_params.get("goal", ""), request.query_params.get("q", "")
        lines = last_lines(self._instance.log_file, text, goal)
        return self._page(request, "log.html", lines=lines, goal=goal, text=text)

    def new(self, request: Request) -> HTMLResponse:
        """Show the form for a new goal."""
        with suppress(CliError):
            names = sorted(self._instance.settings_for_display.agents.names)
            return self._page(request, "new.html", agents=names)
        return self._page(request, "new.html", agents=[])

    def notice(self, request: Request, message: str) -> str:
        """Return a page that says what is wrong."""
        return self._rendered(request, "notice.html", message=message)

    @property
    def _running(self) -> bool:
        return self._instance.holder is not None

    def _page(self, request: Request, template: str, **values: Any) -> HTMLResponse:
        text = self._rendered(request, template, **values)
        return HTMLResponse(text.encode("utf-8", "replace"))

    def _rendered(self, request: Request, template: str, **values: Any) -> str:
        base = {
            "base": request.scope.get("root_path", ""),
            "read_only": self._read_only,
            "running": self._running,
            "standalone": False,
            "actions_shown": ACTIONS_SHOWN,
        }
        return page(template, **base, **values)


def number(text: str | None) -> int | None:
    """Return the number in a query, None where there is none."""
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 18 else None
