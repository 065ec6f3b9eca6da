"""The routes of `clew web`: pages, the full output of an action, live changes, and changes that a person asks for."""

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Iterable

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from clew_daemon.reading.errors import CliError
from clew_daemon.reading.instance import Instance
from clew_daemon.reading.sanitize import clean
from clew_daemon.web.changes import perform
from clew_daemon.web.pages import Pages
from clew_daemon.web.rendering import STATIC

READERS_MAX = 24
BODY_S = 10.0
"""How long the body of a request may take; its length is bounded by the rules."""
CHANGES_KEPT = 256
"""Changes that are remembered; a page that has missed more is told that any goal may have changed."""

AT_MOST_EVERY_S = 0.2
ALIVE_S = 15.0
ALL = ""
"""In place of a goal's id: any of them, or the daemon, may have changed."""


class LiveChanges:
    """Sends to any number of open pages which goals have changed (Server-Sent Events).

    A page gets no content this way: it fetches itself again. So nothing can be shown twice or be missing, whatever
    happens to the daemon or to the connection, and a slow page skips what it missed.
    """

    def __init__(self) -> None:
        self._changed = asyncio.Event()
        self._last = 0
        self._goals: deque[str] = deque(maxlen=CHANGES_KEPT)
        self.readers = 0

    def add(self, goals: Iterable[str]) -> None:
        """Note that goals have changed, each by its id, or `ALL`."""
        for goal in goals:
            self._last += 1
            self._goals.append(goal)
        self._changed.set()
        self._changed = asyncio.Event()

    async def messages(self) -> AsyncIterator[bytes]:
        """Yield messages for one page, and a comment now and then by which a dead connection is found."""
        self.readers += 1
        seen = self._last
        try:
            yield b"retry: 1000\n\n"
            while True:
                if self._last == seen:
                    try:
                        await asyncio.wait_for(self._changed.wait(), ALIVE_S)
                    except TimeoutError:
                        yield b": alive\n\n"
                        continue
                missed, seen = self._last - seen, self._last
                last = sorted(set(list(self._goals)[-missed:]))
                goals = [ALL] if missed > len(self._goals) else last
                yield f"data: {json.dumps({'goals': goals})}\n\n".encode()
                await asyncio.sleep(AT_MOST_EVERY_S)
        finally:
            self.readers -= 1


def web_app(instance: Instance, live: LiveChanges, *, read_only: bool) -> Starlette:
    """Return the application behind the guard."""
    pages = Pages(instance, read_only=read_only)

    async def events(_: Request) -> Response:
        if live.readers >= READERS_MAX:
            return PlainTextResponse("too many pages are open: close some of them", 503)
        return StreamingResponse(live.messages(), media_type="text/event-stream")

    async def change(request: Request) -> Response:
        try:
            async with asyncio.timeout(BODY_S):
                raw = await request.body()
        except TimeoutError:
            return JSONResponse({"error": "the request came too slowly"}, status_code=408)
        try:
            done = await run_in_threadpool(perform, instance, request.path_params["what"], raw)
        except CliError as error:
            return JSONResponse({"error": clean(error.message, lines=True)}, status_code=409)
        return JSONResponse(done)

    def not_found(request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 404
        message = error.message if isinstance(error, CliError) else "There is no such page."
        return pages.notice(request, message, status)

    return Starlette(
        routes=[
            Route("/", pages.goals),
            Route("/goals/{goal}", pages.goal),
            Route("/goals/{goal}/actions/{seq:int}", pages.action),
            Route("/goals/{goal}/actions/{seq:int}/output", pages.output),
            Route("/goals/{goal}/changes", pages.changes),
            Route("/goals/{goal}/prompt", pages.prompt),
            Route("/log", pages.log),
            Route("/new", pages.new),
            Route("/events", events),
            Route("/change/{what}", change, methods=["POST"]),
            Mount("/static", StaticFiles(directory=STATIC)),
        ],
        exception_handlers={CliError: not_found, HTTPException: not_found},
    )
