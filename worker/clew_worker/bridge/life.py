"""The life of a bridge: it starts its goal's CLI turn by turn until the goal is over, and reports what the turns cost.

The CLI thinks and calls clew's tools; the end of its turn is not the end of the goal. The daemon has the record, the
CLI its own conversation, which continues after a crash where it belongs to the same attempt.
"""

import asyncio
import os
import socket
import sys
import time
from contextlib import suppress

import uvloop

from clew_shared.exit_codes import ExitCode
from clew_shared.text.redact import hide
from clew_shared.text.words import log_in
from clew_shared.wire.answers import Noted
from clew_worker.agent.client import AgentClient
from clew_worker.agent.life import BuiltInAgent, CannotContinue, live
from clew_worker.agent.rpc import Disconnected, RpcError
from clew_worker.bridge.calls import ToolCalls
from clew_worker.bridge.cell import CellGoneError, CliCell, CliFaultError, CliRun
from clew_worker.bridge.clis.cli import CliOptions, LimitReached
from clew_worker.bridge.clis.known import CLIS
from clew_worker.bridge.conversation import PLACE, Conversation
from clew_worker.bridge.gateway import Gateway, Relays
from clew_worker.bridge.goal import GoalView
from clew_worker.bridge.prompts import first_prompt, next_prompt, resume_prompt
from clew_worker.bridge.tools import warning
from clew_worker.bridge.turn import START_FIX, CliCrashError, CliTurn


def run_bridge(channel_fd: int, peer_fd: int) -> int:
    """Run a bridge until its goal is over; return its exit code, as `clew_worker.agent.main.main`.

    `channel_fd` leads to the daemon, `peer_fd` to the cell of the CLI.
    """

    def make(daemon: AgentClient) -> BuiltInAgent:
        return Bridge(daemon, CliCell(socket.socket(fileno=peer_fd)))

    async def run() -> int:
        return await live(socket.socket(fileno=channel_fd), make)

    try:
        return uvloop.run(run())
    except (CellGoneError, CliCrashError) as error:
        sys.stderr.write(f"{error}\n")
        return ExitCode.FAILED


NAME = "cli/1"
IDLE_TURNS_MAX = 3
ANEW_MAX = 2
"""How often in a row a new conversation may replace one that cannot be continued."""

THOUGHT_CHARS = 20_000
LAST_WORDS_CHARS = 400
LAST_REPORT_S = 1.0
GOODBYE_S = 2.0
"""How long a CLI may take to end its turn after the goal is over; its usage comes with that end."""


class Bridge:
    """Works on one goal with one CLI until it is done."""

    def __init__(self, daemon: AgentClient, cell: CliCell) -> None:
        self._daemon = daemon
        self._cell = cell
        self._goal = GoalView(daemon, NAME)
        self._calls = ToolCalls(self._goal)
        self._conversation = Conversation()
        self._resuming = False
        self._anew = 0
        self._warnings: list[str] = []
        self._idle = 0
        self._last_words = ""

    async def run(self) -> None:
        """Take turns until the goal is over; `CannotContinue` where the CLI cannot be used."""
        await self._goal.refresh()  # while the cell becomes ready
        async with self._cell as cell:
            self._gateway = Gateway(cell.listener, self._calls.call, cell.ready.token)
            self._cli = CLIS[self._option("cli")]
            self._options = self._cli_options()
            async with self._gateway:
                await self._prepare()
                await self._work()

    # -- the start

    def _option(self, name: str) -> str:
        return str((self._goal.hello.options.agent.model_extra or {}).get(name) or "")

    def _cli_options(self) -> CliOptions:
        hello = self._goal.hello
        own, key = hello.options.agent, hello.credential or ""
        hide([key] if key else [])
        args = (own.model_extra or {}).get("args") or ()
        return CliOptions(
            program=self._cell.ready.program,
            model=own.model,
            base_url=own.base_url,
            key=key,
            args=tuple(map(str, args)),
        )

    @property
    def _login(self) -> str:
        """What a person does where the CLI wants a login."""
        if self._options.key:
            return "its key is refused; check `api_key_env` or `api_key_file` of the agent"
        fix = log_in(self._cli.name)
        if self._logins:
            return fix
        return f"{fix}; then name its login file in `credentials` of the agent, or a key in `api_key_file`"

    async def _prepare(self) -> None:
        """Empty the CLI's HOME but for its sessions, and put its login files there."""
        before = Conversation.read(await self._cell.read(PLACE))
        self._logins = dict(self._goal.hello.logins)
        await self._cell.put(self._logins, kept=(*self._cli.kept, PLACE))
        if before.continues(self._attempt):
            self._conversation, self._resuming = before, True

    @property
    def _attempt(self) -> tuple[int, ...]:
        state = self._goal.state
        return (state.current_task_idx, state.current_subtask_idx, self._goal.hello.attempt.n)

    # -- turns

    async def _work(self) -> None:
        prompt = self._opening()
        while True:
            self._goal.begin()
            if not await self._turn(prompt):
                prompt = first_prompt(self._goal.hello)
                continue
            if self._goal.over.is_set():
                return
            if not await self._gets_on():
                return
            await self._goal.refresh()
            news = [*self._warnings, *self._goal.take_news()]
            self._warnings = []
            prompt = next_prompt(self._goal.hello, acted=self._goal.effects > 0, news=news)

    def _opening(self) -> str:
        self._goal.take_news()  # the answer to hello has it
        hello = self._goal.hello
        return resume_prompt(hello) if self._conversation.id else first_prompt(hello)

    async def _turn(self, prompt: str) -> bool:
        """Have the CLI take a turn; return False where it cannot continue its conversation, and begins a new one."""
        turn = CliTurn(self._cli, time.time, self._login)
        began = time.monotonic()
        relays = self._gateway.begin()
        run = await self._start(prompt)
        over, turn_over = self._goal.over, self._goal.turn_over
        ends = (
            *(self._end_after(run, event) for event in (over, turn_over)),
            self._end_when_cut_off(run, turn, relays),
        )
        watching = [asyncio.create_task(end) for end in ends]
        try:
            await self._follow(run, turn)
            end = await run.ended
        finally:
            for task in watching:
                task.cancel()
            with suppress(Exception):
                await self._cell.stop()
            turn.acted, turn.listed = self._goal.effects > 0, relays.listed
            is_over = over.is_set() or turn_over.is_set()
            unfinished = turn.unfinished(run.code) and not is_over
            await self._report(turn, time.monotonic() - began, unfinished=unfinished)
            await self._hand_back_logins()
        if self._goal.over.is_set():
            return True
        lost = self._resuming and not (turn.session or self._goal.effects or turn.stops)
        self._resuming = False
        if lost or turn.session_over:
            return self._begin_anew(turn)
        if turn.ended or not turn_over.is_set():
            turn.close(end, run.errors)
        conversation = self._conversation.at(self._conversation.id, self._attempt)
        await self._remember(conversation.with_usage(turn.usage))
        self._anew = 0
        return True

    def _begin_anew(self, turn: CliTurn) -> bool:
        """Forget the CLI's own session; the record has what matters. Returns False: the turn was none."""
        self._conversation = Conversation()
        self._anew += 1
        if self._anew > ANEW_MAX:
            raise turn.lasting(f"cannot continue: {turn.session_over}")
        return False

    async def _start(self, prompt: str) -> CliRun:
        ready = self._cell.ready
        launch = self._cli.launch(
            self._options, ready.relay, ready.home, prompt, self._conversation.id
        )
        await self._cell.put(launch.files)
        env = {**_inherited(), **launch.env, "TMPDIR": ready.tmp}
        try:
            return await self._cell.start(launch.argv, env, launch.stdin)
        except CliFaultError as fault:
            why = f"{self._cli.name} cannot be started: {fault}. {START_FIX}"
            raise CannotContinue("configuration", why) from None

    async def _follow(self, run: CliRun, turn: CliTurn) -> None:
        """Take the events of a run until its output ends."""
        reader = self._cli.reader(self._conversation.used)
        heeding = asyncio.create_task(self._end_at_limit(run, turn))
        try:
            async for line in run.lines():
                turn.count(line, run.bytes_read)
                for event in reader.feed(line):
                    if thought := turn.take(event):
                        await self._think(thought)
                if turn.session and turn.session != self._conversation.id:
                    await self._remember(self._conversation.at(turn.session, self._attempt))
        finally:
            heeding.cancel()
        if turn.ended is None:
            for line in run.errors.encode().splitlines():  # some faults are reported only there
                for event in reader.feed(line):
                    turn.take(event)

    async def _end_at_limit(self, run: CliRun, turn: CliTurn) -> None:
        """End a CLI that names a usage limit on standard error alone and tries again for hours: opencode does."""
        reader = self._cli.reader()
        async for line in run.complaints():
            if limits := [one for one in reader.feed(line) if isinstance(one, LimitReached)]:
                turn.take(limits[0])
                await self._cell.stop()
                return

    async def _remember(self, conversation: Conversation) -> None:
        self._conversation = conversation
        await self._cell.put({PLACE: conversation.text()})

    async def _end_after(self, run: CliRun, over: asyncio.Event) -> None:
        """End a CLI that goes on after the goal, or its turn, is over."""
        await over.wait()
        await asyncio.wait([run.ended], timeout=GOODBYE_S)
        await self._cell.stop()

    async def _end_when_cut_off(self, run: CliRun, turn: CliTurn, relays: Relays) -> None:
        """End a CLI that has lost clew's tools, and would wait for them, unless its turn is over."""
        await relays.lost.wait()
        await asyncio.wait([run.ended], timeout=GOODBYE_S)
        if not run.ended.done() and turn.ended is None:
            turn.cut_off = True
            await self._cell.stop()

    # -- the record

    async def _think(self, text: str) -> None:
        with suppress(RpcError, ValueError):  # a thought is not worth a crash
            noted = await self._daemon.call("think", text=text[:THOUGHT_CHARS], has_tool_calls=True)
            self._show(noted)

    def _show(self, noted: object) -> None:
        found = Noted.model_validate(noted or {})
        if found.intervention:
            self._warnings = [*self._warnings[-4:], warning(found.intervention)]
        if found.escalated_to == "person":
            self._goal.over.set()

    async def _report(self, turn: CliTurn, seconds: float, *, unfinished: bool) -> None:
        """Report a turn with its cost, also one that was cut off; the daemon may be gone."""
        if not turn.events and not turn.acted:
            return
        words = turn.ended.message.splitlines() if turn.ended else []
        self._last_words = words[-1][:LAST_WORDS_CHARS] if words else ""
        used = turn.usage
        usage = {
            "input": used.input,
            "output": used.output,
            "cached": used.cached,
            "seconds": round(seconds, 3),
        }
        record = {
            "mode": "fast",
            "tool_calls": self._goal.take_records(),
            "synthesis": turn.ended.message[:THOUGHT_CHARS] if turn.ended else "",
            "cost_usd": round(used.cost_usd or 0.0, 6),
            "unfinished": unfinished,
        }
        with suppress(Disconnected, TimeoutError):
            async with asyncio.timeout(LAST_REPORT_S):
                self._show(await self._daemon.reflect(usage, record))

    async def _hand_back_logins(self) -> None:
        """Send the daemon the login files in which the CLI has refreshed a token, if the config wants that."""
        if not (self._goal.hello.options.agent.model_extra or {}).get("refresh_credentials"):
            return
        with suppress(Disconnected, RpcError, CellGoneError, TimeoutError, ValueError):
            async with asyncio.timeout(LAST_REPORT_S):
                for place, text in self._logins.items():
                    found = await self._cell.read(place)
                    if found and found != text:
                        self._logins = {**self._logins, place: found}
                        await self._daemon.call("login", place=place, text=found)

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
        await self._daemon.call("complete_subtask", success=False, failure=failure, summary=failure)
        return True


def _inherited() -> dict[str, str]:
    """Return what a CLI gets of the bridge's own environment."""
    return {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
