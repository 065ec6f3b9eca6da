"""The routes of `clew web`: pages, the full output of an action, live changes, and changes that a person asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from clew_daemon.reading.errors import CliError
from clew_daemon.reading.sanitize import clean
from clew_daemon.web.changes import perform
from clew_daemon.web.live import READERS_MAX
from clew_daemon.web.pages import Pages
from clew_daemon.web.rendering import STATIC

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from clew_daemon.reading.instance import Instance
    from clew_daemon.web.live import LiveChanges

BUSY = "too many pages are open: close some of them"


def web_app(instance: Instance, live: LiveChanges, *, read_only: bool) -> Starlette:
    """Return the application behind the guard."""
    pages = Pages(instance, read_only=read_only)

    async def events(_: Request) -> Response:
        if live.readers >= READERS_MAX:
            return PlainTextResponse(BUSY, status_code=503)
        return StreamingResponse(live.messages(), media_type="text/event-stream")

    async def change(request: Request) -> Response:
        try:
            raw = await request.body()
        except TimeoutError:
            return JSONResponse({"error": "the request came too slowly"}, status_code=408)
        try:
            done = await run_in_threadpool(perform, instance, request.path_params["what"], raw)
        except CliError as error:
            return JSONResponse({"error": clean(error.message, lines=True)}, status_code=409)
        return JSONResponse(done)

    return Starlette(
        routes=[
            Route("/", pages.goals),
            Route("/goals/{goal}", pages.goal),
            Route("/goals/{goal}/actions/{seq:int}", pages.action),
            Route("/goals/{goal}/actions/{seq:int}/output", pages.output),
            Route("/goals/{goal}/changes", pages.changes),
            Route("/goals/{goal}/prompt", pages.prompt),
            Route("/playbook", pages.playbook),
            Route("/log", pages.log),
            Route("/new", pages.new),
            Route("/events", events),
            Route("/change/{what}", change, methods=["POST"]),
            Mount("/static", StaticFiles(directory=STATIC)),
        ],
        exception_handlers={CliError: _not_found(pages), HTTPException: _not_found(pages)},
    )


def _not_found(pages: Pages) -> Any:
    def answer(request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 404
        message = error.message if isinstance(error, CliError) else "There is no such page."
        return HTMLResponse(pages.notice(request, message), status_code=status)

    return answer
