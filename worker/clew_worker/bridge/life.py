"""The life of a bridge: it starts its goal's CLI turn by turn until the goal is over, and reports what the turns cost.

The CLI thinks and calls clew's tools; the end of its turn is not the end of the goal. The daemon has the record, the
CLI its own conversation, which continues after a crash where it belongs to the same attempt.
"""

import asyncio
import os
import socket
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict

import uvloop

from clew_shared.exit_codes import ExitCode
from clew_shared.text.redact import hide
from clew_shared.text.words import log_in
from clew_shared.wire.answers import Noted
from clew_worker.agent.client import (
    AgentClient,
    CannotContinue,
    Disconnected,
    RpcError,
    Stopping,
    live,
)
from clew_worker.bridge.calls import ToolCalls
from clew_worker.bridge.cli_cell import PLACE, CellGoneError, CliCell, CliEnded, CliRun
from clew_worker.bridge.clis import CLIS
from clew_worker.bridge.clis.cli import CliOptions
from clew_worker.bridge.gateway import Gateway
from clew_worker.bridge.tools import first_prompt, next_prompt, warning
from clew_worker.bridge.turn import START_FIX, CliCrashError, CliTurn, Conversation

NAME = "cli/1"
IDLE_TURNS_MAX = 3
ANEW_MAX = 2  # how often in a row a new conversation may replace one that cannot be continued
THOUGHT_CHARS, LAST_WORDS_CHARS = 20_000, 400
LAST_REPORT_S = 1.0
GOODBYE_S = 2.0  # for a CLI to end its turn after the goal is over; its usage comes with that end


def run_bridge(channel_fd: int, peer_fd: int) -> int:
    """Run a bridge between the daemon and the cell of its CLI until its goal is over; return its exit code."""
    daemon, peer = socket.socket(fileno=channel_fd), socket.socket(fileno=peer_fd)
    try:
        return uvloop.run(live(daemon, lambda client: Bridge(client, CliCell(peer)).run()))
    except (CellGoneError, CliCrashError) as error:
        sys.stderr.write(f"{error}\n")
        return ExitCode.FAILED


class Bridge:
    """Works on one goal with one CLI until it is done."""

    def __init__(self, daemon: AgentClient, cell: CliCell) -> None:
        self._daemon = daemon
        self._cell = cell
        self._goal = ToolCalls(daemon, NAME)
        self._conversation = Conversation()
        self._resuming = False
        self._anew = self._idle = 0
        self._warnings: list[str] = []
        self._last_words = ""

    async def run(self) -> None:
        """Take turns until the goal is over; `CannotContinue` where the CLI cannot be used."""
        await self._goal.refresh()  # while the cell becomes ready
        async with self._cell as cell:
            self._gateway = Gateway(cell.listener, self._goal.call, cell.ready.token)
            async with self._gateway:
                await self._prepare()
                await self._work()

    async def _prepare(self) -> None:
        """Empty the CLI's HOME but for its sessions, and put its login files there."""
        hello = self._goal.hello
        agent, key = hello.options.agent, hello.credential or ""
        own = agent.model_extra or {}  # the keys that only coding agents have
        hide([key] if key else [])
        self._cli = CLIS[str(own.get("cli"))]
        ready, args = self._cell.ready, tuple(map(str, own.get("args") or ()))
        place = (ready.program, ready.relay, ready.home)
        self._options = CliOptions(*place, agent.model, agent.base_url, key, args)
        before = Conversation.read(ready.conversation)
        self._logins, self._refreshes = dict(hello.logins), bool(own.get("refresh_credentials"))
        await self._cell.put(self._logins, kept=(*self._cli.kept, PLACE))
        if before.continues(self._attempt):
            self._conversation, self._resuming = before, True

    @property
    def _login(self) -> str:
        if self._options.key:
            return "its key is refused; check `api_key_env` or `api_key_file` of the agent"
        fix, then = log_in(self._cli.name), "then name its login file in `credentials` of the agent"
        return fix if self._logins else f"{fix}; {then}, or a key in `api_key_file`"

    @property
    def _attempt(self) -> tuple[int, ...]:
        state = self._goal.state
        return (state.current_task_idx, state.current_subtask_idx, self._goal.hello.attempt.n)

    async def _work(self) -> None:
        goal = self._goal
        goal.take_news()  # the answer to hello has it
        prompt = first_prompt(goal.hello, resumed=self._resuming)
        while True:
            goal.begin()
            if not await self._turn(prompt):
                prompt = first_prompt(goal.hello)
                continue
            if goal.over.is_set() or not await self._gets_on():
                return
            await goal.refresh()
            acted, news, warnings = goal.effects > 0, goal.take_news(), self._warnings
            prompt = next_prompt(goal.hello, acted=acted, news=news, warnings=warnings)
            self._warnings = []

    async def _turn(self, prompt: str) -> bool:
        """Have the CLI take a turn; return False where it cannot continue its conversation, and begins a new one."""
        goal, turn = self._goal, CliTurn(self._cli, self._login)
        began, relays = time.monotonic(), self._gateway.begin()
        run = await self._start(prompt)
        turn_over = goal.turn_over
        ends = (goal.over, turn_over, relays.lost)
        watching = [asyncio.create_task(self._end_after(one, run, turn)) for one in ends]
        try:
            end = await self._follow(run, turn)
        finally:
            for task in watching:
                task.cancel()
            with suppress(Exception):
                await run.stop()
            turn.acted, turn.listed = goal.effects > 0, relays.listed
            was_ended, known = goal.over.is_set() or turn_over.is_set(), run.end
            unfinished = turn.unfinished(known.code if known else None) and not was_ended
            await self._report(turn, time.monotonic() - began, unfinished=unfinished)
            await self._hand_back(known.files if known else {})
        if goal.over.is_set():
            return True
        lost = self._resuming and not (turn.session or goal.effects or turn.stops)
        self._resuming = False
        over = turn.faults.get("session", "")
        if lost or over:  # the record has what matters
            self._conversation = Conversation()
            self._anew += 1
            if self._anew > ANEW_MAX:
                raise turn.lasting(f"cannot continue: {over}")
            return False
        if turn.ended or not turn_over.is_set():
            turn.close(end)
        used = self._conversation.used + turn.usage
        update = {"attempt": self._attempt, "used": used}
        await self._remember(self._conversation.model_copy(update=update))
        self._anew = 0
        return True

    async def _start(self, prompt: str) -> CliRun:
        ready, session = self._cell.ready, self._conversation.id
        launch = self._cli.launch(self._options, prompt, session)
        await self._cell.put(launch.files)
        inherited = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        env = {**inherited, **launch.env, "HOME": ready.home, "TMPDIR": ready.tmp, "TZ": "UTC"}
        back = tuple(self._logins) if self._refreshes else ()
        return await self._cell.start(launch.argv, env, launch.stdin, back)

    async def _follow(self, run: CliRun, turn: CliTurn) -> CliEnded:
        reader = self._cli(self._conversation.used)
        async for line in run.lines():
            turn.count(line, run.bytes_read)
            for event in reader.feed(line):
                if thought := turn.take(event)[:THOUGHT_CHARS]:
                    with suppress(RpcError, Stopping, ValueError):  # a thought is not worth a crash
                        self._show(await self._daemon.think(thought, has_tool_calls=True))
            if turn.session and turn.session != self._conversation.id:
                await self._remember(Conversation(id=turn.session, attempt=self._attempt))
        end = await run.ended
        if end.fault:
            why = f"{self._cli.name} cannot be started: {end.fault}"
            if end.temporary:
                raise CannotContinue("temporary", why)
            raise CannotContinue("configuration", f"{why}. {START_FIX}")
        if turn.ended is None:
            for line in end.errors.encode().splitlines():  # some faults are reported only there
                for event in reader.feed(line):
                    turn.take(event)
        return end

    async def _remember(self, conversation: Conversation) -> None:
        self._conversation = conversation
        await self._cell.put({PLACE: conversation.model_dump_json()})

    async def _end_after(self, event: asyncio.Event, run: CliRun, turn: CliTurn) -> None:
        """End a CLI that goes on after the goal or its turn, or that has lost clew's tools, for which it would wait."""
        await event.wait()
        await asyncio.wait([run.ended], timeout=GOODBYE_S)
        if event not in (self._goal.over, self._goal.turn_over):
            if run.ended.done() or turn.ended:
                return
            turn.cut_off = True
        await run.stop()

    def _show(self, noted: Noted) -> None:
        if noted.intervention:
            self._warnings = [*self._warnings[-4:], warning(noted.intervention)]
        if noted.escalated_to == "person":
            self._goal.over.set()

    async def _report(self, turn: CliTurn, seconds: float, *, unfinished: bool) -> None:
        """Report a turn with its cost, also one that was cut off; the daemon may be gone."""
        if not turn.events and not turn.acted:
            return
        said = turn.ended.message if turn.ended else ""
        self._last_words = "".join(said.splitlines()[-1:])[:LAST_WORDS_CHARS]
        usage = asdict(turn.usage) | {"seconds": round(seconds, 3)}
        record = {
            "mode": "fast",
            "tool_calls": self._goal.take_records(),
            "synthesis": said[:THOUGHT_CHARS],
            "cost_usd": round(usage.pop("cost_usd") or 0.0, 6),
            "unfinished": unfinished,
        }
        with suppress(Disconnected, TimeoutError):
            async with asyncio.timeout(LAST_REPORT_S):
                self._show(await self._daemon.reflect(usage, record))

    async def _hand_back(self, files: Mapping[str, str]) -> None:
        """Send the daemon the login files in which the CLI has refreshed a token."""
        with suppress(Disconnected, RpcError, TimeoutError, ValueError):
            async with asyncio.timeout(LAST_REPORT_S):
                for place, text in files.items():
                    if text and text != self._logins.get(place, text):
                        self._logins[place] = text
                        await self._daemon.call("login", place=place, text=text)

    async def _gets_on(self) -> bool:
        """Count turns in a row without an action: so many end the attempt; return False where that is not possible."""
        self._idle = 0 if self._goal.effects else self._idle + 1
        if self._idle < IDLE_TURNS_MAX:
            return True
        self._idle = 0
        if self._goal.state.replan_required or not self._goal.state.subtask.open:
            return False
        failure = f"{self._cli.name} called none of clew's tools in {IDLE_TURNS_MAX} turns"
        failure += f"; its last output: {self._last_words}" if self._last_words else ""
        await self._daemon.complete_subtask(success=False, summary=failure)
        return True
