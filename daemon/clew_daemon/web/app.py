"""The routes of `clew web`: pages, the full output of an action, live changes, and changes that a person asks for."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterable

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from clew_daemon.reading.client import Change, command_of
from clew_daemon.reading.errors import CliError
from clew_daemon.reading.instance import Instance
from clew_daemon.reading.sanitize import clean
from clew_daemon.web.pages import STATIC, Pages

BODY_S = 10.0  # how long the body of a request may take; its length is bounded by the rules
AT_MOST_EVERY_S, ALIVE_S = 0.2, 15.0
ALL = ""  # in place of a goal's id: any of them, or the daemon, may have changed
READERS_MAX, TEXT_CHARS_MAX = 24, 100_000


class LiveChanges:
    """Sends to any number of open pages which goals have changed (Server-Sent Events).

    A page gets no content this way: it fetches itself again. So nothing can be shown twice or be missing, whatever
    happens to the daemon or to the connection, and a slow page is told at once of all that it missed.
    """

    def __init__(self) -> None:
        self.readers: dict[asyncio.Event, set[str]] = {}

    def add(self, goals: Iterable[str]) -> None:
        """Note that goals have changed, each by its id, or `ALL`."""
        for changed, missed in self.readers.items():
            missed.update(goals)
            changed.set()

    async def messages(self) -> AsyncIterator[bytes]:
        """Yield messages for one page, and a comment now and then by which a dead connection is found."""
        changed, missed = asyncio.Event(), set[str]()
        self.readers[changed] = missed
        try:
            yield b"retry: 1000\n\n"
            while True:
                try:
                    await asyncio.wait_for(changed.wait(), ALIVE_S)
                except TimeoutError:
                    yield b": alive\n\n"
                    continue
                goals = sorted(missed)
                missed.clear()
                changed.clear()
                yield f"data: {json.dumps({'goals': goals})}\n\n".encode()
                await asyncio.sleep(AT_MOST_EVERY_S)
        finally:
            del self.readers[changed]


class GoalBody(BaseModel):
    """A change of a goal, by its id."""

    model_config = ConfigDict(extra="forbid", strict=True)
    goal: str = Field(min_length=1, max_length=200)
    text: str = Field("", max_length=TEXT_CHARS_MAX)
    signature: str = Field("", max_length=TEXT_CHARS_MAX)


def perform(instance: Instance, what: str, raw: bytes) -> dict[str, str]:
    """Carry out a change; return what was done and the command that does the same. CliError says why it was not."""
    try:
        wanted = _wanted(what, GoalBody.model_validate_json(raw))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the request"
        raise CliError(f"{where}: {first['msg']}") from None
    answer = wanted.send(instance.socket)
    said = answer.get("said") or answer["status"]
    return {"goal": answer["id"], "said": said, "command": command_of(wanted)}


def _wanted(what: str, body: GoalBody) -> Change:
    match what:
        case "pause" | "continue" | "cancel":
            return Change(what, {"goal": body.goal})
        case "feedback" if body.text:
            return Change(what, {"goal": body.goal, "text": body.text})
        case "unblock" if body.signature:
            return Change(what, {"goal": body.goal, "signature": body.signature})
    raise CliError(f"there is no change {what!r}, or something is missing in it")


def web_app(instance: Instance, live: LiveChanges, *, read_only: bool) -> Starlette:
    """Return the application behind the guard."""
    pages = Pages(instance, read_only=read_only)

    async def events(_: Request) -> Response:
        if len(live.readers) >= READERS_MAX:
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

    return Starlette(
        routes=[
            *pages.routes(),
            Route("/events", events),
            Route("/change/{what}", change, methods=["POST"]),
            Mount("/static", StaticFiles(directory=STATIC)),
        ],
        exception_handlers={CliError: pages.notice, HTTPException: pages.notice},
    )
