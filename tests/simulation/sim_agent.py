"""Agents of every sort: diligent, looping, lying, flooding, crashing. None of them knows what the daemon decides.

An agent draws one deed after the other by the weights of its character, and speaks the worker protocol.
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

from clew_shared.wire import protocol

if TYPE_CHECKING:
    from sim_cells import Files, SimChannel
    from sim_world import World

CHARACTERS: dict[str, dict[str, float]] = {
    "diligent": {"work": 20, "think": 2, "reflect": 4, "read": 2, "act": 1},
    "looping": {"repeat": 14, "work": 3, "reflect": 2, "act": 2},
    "pacing": {"alternate": 14, "work": 3, "reflect": 2, "read": 1},
    "musing": {"think": 12, "reflect": 8, "work": 3, "act": 1},
    "lying": {"lie": 8, "work": 8, "act": 4, "reflect": 3, "forge": 3},
    "feigning": {"repeat": 10, "forge": 6, "work": 2, "act": 1},
    "fragile": {"work": 10, "die": 3, "boom": 2, "hang": 1, "leave": 1, "act": 2},
    "crashing": {"die": 10, "leave": 3, "work": 2},
    "flooding": {"flood": 6, "work": 4, "act": 3, "garbage": 1},
    "quitting": {"give_up": 4, "work": 3, "act": 2, "finish": 2, "think": 1},
    "odd": {"act": 4, "plan": 2, "finish": 2, "learn": 2, "hello": 2, "slot": 2, "advance": 2, "work": 6},
    "stubborn": {"repeat": 5, "act": 8, "think": 2},
    "stuck": {"work": 8, "act": 4, "give_up": 3, "finish": 3, "reflect": 3, "repeat": 1},
}  # fmt: skip
METHODS = (*(method for method in protocol.METHODS if method != "heartbeat"), "nonsense")
ONE_SIDED = {"erratic": {"any": 1}} | {f"only {method}": {method: 1} for method in METHODS}
"""Characters that are in no life by chance: any method at random, and one for ever."""

PATIENCE_S = 60.0
"""So long a foreign agent waits for an answer; nobody but itself watches whether it gets on."""
THOUGHTS = (
    "I plan to search for it", "I plan to look for it", "hm", "let me run the test", "done?",
)  # fmt: skip
WORDS = ("found the cause", "the test fails", "all is well", "")
LEAVES = (75, 78)
ODD_ENTRIES: tuple[dict[str, Any], ...] = (
    {}, {"seq": True}, {"seq": "1", "args": 7}, {"role": 3}, {"role": "user", "text": ["x"]},
    {"seq": 2.5, "name": {"a": 1}, "result": None}, {"seq": -9, "output": 4, "changed": "perhaps"},
    {"role": "assistant", "text": "x" * 9_000}, {"seq": 10**30},
)  # fmt: skip
FOREIGN = ("own", "plain")


class GoneError(Exception):
    """The agent's process is over, with a code."""

    def __init__(self, code: int) -> None:
        super().__init__(str(code))
        self.code = code


class SimAgent:
    """One agent process of one epoch."""

    def __init__(
        self, world: World, channel: SimChannel, goal: str, kind: str, folder: Files
    ) -> None:
        self._world, self._channel, self._goal, self._kind = world, channel, goal, kind
        self._folder = folder
        self._rng = world.rng
        self.character = world.character(goal)
        nature = (CHARACTERS | ONE_SIDED)[self.character]
        self._deeds, self._weights = list(nature), list(nature.values())
        self._number = 0
        self._stage = self._rng.randrange(3)
        self._item = self._rng.randrange(4)
        self._replan: str | None = None
        self._turn: list[dict[str, Any]] = []
        self._turns = 0
        self._seqs: list[int] = []

    async def live(self) -> int:
        """Live until the end; gives the exit code."""
        beat = asyncio.get_running_loop().create_task(self._beat())
        try:
            if self._rng.random() < self._world.chaos.mute:
                await self._idle()  # never says hello
            await self._hello()
            while True:
                await asyncio.sleep(self._rng.expovariate(2.0))
                deed = self._rng.choices(self._deeds, self._weights)[0]
                self._world.trace(self._goal, f"deed {deed}")
                one_sided = self.character in ONE_SIDED
                await (self._any(deed) if one_sided else getattr(self, f"_{deed}")())
        except GoneError as gone:
            return gone.code
        finally:
            beat.cancel()

    async def _beat(self) -> None:
        while True:
            self._send({"jsonrpc": "2.0", "method": "heartbeat"})
            await asyncio.sleep(1.0)

    def _send(self, message: dict[str, Any]) -> None:
        self._channel.say(json.dumps(message).encode() + b"\n")

    async def _call(self, method: str, **params: Any) -> dict[str, Any]:
        """Ask, and wait for the answer; an error is an answer too."""
        self._number += 1
        self._send({"jsonrpc": "2.0", "id": self._number, "method": method, "params": params})
        while True:
            message = await self._next()
            if message.get("method") == "stop" and self._rng.random() < 0.7:
                raise GoneError(0)
            if message.get("id") == self._number:
                break
        answer = message.get("result") or {"error": message.get("error")}
        level = answer.get("escalated_to")
        if level in ("task", "goal"):
            self._replan = level
        if answer.get("reason") == "replan_required" and self._replan is None:
            self._replan = "task"
        return answer

    async def _next(self) -> dict[str, Any]:
        """Wait for the daemon's next word; a foreign agent gives up after a while."""
        if self._kind not in FOREIGN:
            return await self._channel.outgoing.get()
        try:
            async with asyncio.timeout(PATIENCE_S):
                return await self._channel.outgoing.get()
        except TimeoutError:
            raise GoneError(1) from None

    async def _idle(self) -> None:
        """Beat, and do nothing: for ever where somebody watches for it."""
        await asyncio.sleep(PATIENCE_S if self._kind in FOREIGN else 1e6)
        raise GoneError(1)

    # -- deeds ---------------------------------------------------------------------------------------

    async def _hello(self) -> None:
        answer = await self._call("hello", agent=f"simulated/{self.character}")
        self._replan = answer.get("state", {}).get("replan_required")
        if self._rng.random() < 0.3:
            await self._plan()

    async def _any(self, deed: str) -> None:
        """Call a method with some params that it may have, whatever the state."""
        method = self._rng.choice(METHODS) if deed == "any" else deed
        if deed == "any" and method in ("ask", "finish") and self._rng.random() < 0.95:
            method = "think"  # else it would soon be over
        tool, args = self._any_action()
        action = {"tool": tool, "args": args}
        seqs, replans = [*self._seqs, self._rng.randrange(1, 500)], [None, None, "task", "goal"]
        plan = [{"description": "part", "subtasks": [{"description": "a"}, {"description": "b"}]}]
        params: dict[str, Any] = {
            "plan": {"tasks": plan, "replan": self._rng.choice(replans)},
            "act": action,
            "propose": action,
            "record": {**action, "result": "success", "output": "x"},
            "outcome": {"seq": self._rng.choice(seqs), "result": "success"},
            "ask": {"question": "What now?"},
            "think": {"text": self._rng.choice(THOUGHTS)},
            "reflect": {
                "usage": {"input": self._rng.randrange(900)},
                "unfinished": self._rng.random() < 0.1,
            },
            "complete_subtask": {"success": self._rng.random() < 0.5, "failure": "no"},
            "learn": {"deltas": [{"op": "add", "section": "testing", "content": "Test it"}]},
            "finish": {"success": deed != "any" or self._rng.random() < 0.9},
            "llm_slot": {"open": self._rng.random() < 0.5, "base_url": "http://127.0.0.1:1/v1"},
            "leave": {"kind": "temporary", "reason": "busy"},
            "login": {"place": "auth.json", "text": "{}"},
        }
        answer = await self._call(method, **params.get(method, {}))
        if answer.get("verdict") == "allowed":
            self._note(answer["seq"])

    async def _act(self, tool: str = "", args: dict[str, Any] | None = None) -> dict[str, Any]:
        if not tool:
            tool, args = self._any_action()
        if self._kind == "own":
            return await self._do_oneself(tool, args or {})
        answer = await self._call("act", tool=tool, args=args, rationale="because")
        if answer.get("verdict") == "allowed":
            self._note(answer["seq"])
        return answer

    async def _do_oneself(self, tool: str, args: dict[str, Any]) -> dict[str, Any]:
        """Act as an agent with tools of its own: ask first, or tell after the fact."""
        claims = self._rng.choice([None, None, True, False])
        if self._rng.random() < 0.3:
            result, output, _ = self._hands(tool, args)
            said = {"result": result, "output": output, "changed": claims}
            return await self._call("record", tool=tool, args=args, **said)
        answer = await self._call("propose", tool=tool, args=args)
        if answer.get("verdict") != "allowed":
            return answer
        self._note(answer["seq"])
        self._world.watch.acts_itself(self._goal, answer["seq"])
        await asyncio.sleep(self._rng.expovariate(3.0))
        result, output, _ = self._hands(tool, args)
        if self._rng.random() < 0.05:
            result = "interrupted"
        return await self._call(
            "outcome", seq=answer["seq"], result=result, output=output, changed=claims
        )

    def _hands(self, tool: str, args: dict[str, Any]) -> tuple[str, str, int | None]:
        self._world.watch.acts_in(self._goal, self._folder)
        return self._folder.perform(tool, args, self._rng.random(), self._goal)

    def _note(self, seq: int) -> None:
        self._seqs = [*self._seqs[-20:], seq]
        self._turn.append({"seq": seq})

    def _any_action(self) -> tuple[str, dict[str, Any]]:
        n = self._rng.randrange(3)
        return self._rng.choice([
            ("write_file", {"path": f"f{n}", "content": self._rng.choice(["good", "bad"])}),
            ("read_file", {"path": f"f{n}"}),
            ("run_cmd", {"cmd": f"test f{n}"}),
            ("run_cmd", {"cmd": f"toggle t{n}"}),
            ("run_cmd", {"cmd": "poll job"}),
            ("run_cmd", {"cmd": "flaky net"}),
            ("run_cmd", {"cmd": f"nonsense{n}"}),
            ("wait", {"seconds": 1}),
            ("recall", {"seq": self._rng.choice(self._seqs or [1])}),
        ])  # fmt: skip

    async def _work(self) -> None:
        """Do the next right thing: write, test, complete; replan where that is asked for."""
        if self._replan:
            await self._plan()
            return
        name = f"f{self._item}"
        if self._stage == 0:
            await self._act("write_file", {"path": name, "content": "good"})
        elif self._stage == 1:
            await self._act("run_cmd", {"cmd": f"test {name}"})
        else:
            await self._call("complete_subtask", success=True, summary=f"{name} is good")
            answer = await self._call("advance")
            if answer.get("subtask", 0) is None:
                await self._finish()
            self._item += 1
        self._stage = (self._stage + 1) % 3

    async def _repeat(self) -> None:
        await self._act("run_cmd", {"cmd": "make"})

    async def _alternate(self) -> None:
        self._item = 1 - self._item % 2
        await self._act("run_cmd", {"cmd": f"test f{7 + self._item}"})

    async def _read(self) -> None:
        await self._act("read_file", {"path": f"f{self._rng.randrange(3)}"})

    async def _think(self) -> None:
        text = self._rng.choice(THOUGHTS)
        await self._call("think", text=text, has_tool_calls=self._rng.random() < 0.3)
        self._turn.append({"role": "assistant", "text": text})

    async def _reflect(self) -> None:
        self._turns += 1
        rng, turn, self._turn = self._rng, self._turn, []
        if self.character == "lying":
            turn = [*turn, *rng.choices(ODD_ENTRIES, k=3), {"seq": rng.randrange(-1, 50)}]
        prompt = {"folded": rng.randrange(8), "cuts": self._turns, "chars": 900, "sha": "ab"}
        usage = {"input": rng.randrange(900), "output": rng.randrange(90), "seconds": 1.0}
        found = [{"insights": rng.choice(WORDS), "relevance": rng.choice(["high", "low"])}]
        await self._call(
            "reflect",
            progress_assessment=rng.choice(["advancing", "stuck", "regressing", None]),
            hindsight=found * rng.randrange(3),
            turn=turn if rng.random() < 0.8 else [],
            prompt=prompt if rng.random() < 0.8 else None,
            usage=usage,
        )

    async def _lie(self) -> None:
        """Tell an outcome twice, or one of an action that nobody allowed."""
        seq = self._rng.choice([*self._seqs, self._rng.randrange(1, 500)])
        result = self._rng.choice(["success", "failure", "interrupted"])
        await self._call("outcome", seq=seq, result=result, output="trust me", changed=True)

    async def _forge(self) -> None:
        """Report what was never done."""
        args = {"cmd": f"test f{self._rng.randrange(3)}"}
        await self._call("record", tool="run_cmd", args=args, result="success", changed=True)

    async def _plan(self) -> None:
        level = self._replan if self._rng.random() < 0.9 else self._rng.choice(["task", "goal"])
        count = 1 if level == "task" else self._rng.randint(1, 2)
        names = [f"step {self._rng.randrange(6)}" for _ in range(2 * count)]
        tasks = [
            {"description": f"part {n}", "subtasks": [{"description": d} for d in names[n::count]]}
            for n in range(count)
        ]
        covers = self._rng.choice([[], [], [1], [2, 1], "all"]) if level else []
        checks = [{"name": f"f{n}", "cmd": f"test f{n}"} for n in range(self._rng.randrange(3))]
        answer = await self._call("plan", tasks=tasks, replan=level, checks=checks, covers=covers)
        if covers and "state" not in answer:  # fewer are pending, or no replan is asked for
            answer = await self._call("plan", tasks=tasks, replan=level, checks=checks)
        self._replan = None if "state" in answer else "goal"

    async def _give_up(self) -> None:
        await self._call("complete_subtask", success=False, failure="it does not work")

    async def _advance(self) -> None:
        await self._call("advance")

    async def _learn(self) -> None:
        await self._call(
            "learn", deltas=[{"op": "add", "section": "testing", "content": "Test it"}]
        )

    async def _slot(self) -> None:
        await self._call("llm_slot", open=True, base_url="http://127.0.0.1:1/v1")
        await asyncio.sleep(self._rng.uniform(0.1, 3.0))
        if self._rng.random() < 0.8:
            await self._call("llm_slot", open=False)

    async def _finish(self) -> None:
        success = self._rng.random() < (0.5 if self.character == "quitting" else 0.97)
        if self._rng.random() < 0.2:
            answer = await self._call("act", tool="finish", args={"summary": "done"})
            accepted = answer.get("outcome", {}).get("result") == "success"
        else:
            answer = await self._call("finish", success=success, summary="done")
            accepted = answer.get("accepted")
        if accepted and self._rng.random() < 0.9:
            raise GoneError(0)

    # -- misdeeds --------------------------------------------------------------------------------------

    async def _die(self) -> None:
        """Die, perhaps with words on the wire that nobody waits for."""
        if self._rng.random() < 0.5:
            tool, args = self._any_action()
            name = "propose" if self._kind == "own" else "act"
            params = {"tool": tool, "args": args}
            self._send({"jsonrpc": "2.0", "id": 99_999, "method": name, "params": params})
            await asyncio.sleep(self._rng.expovariate(4.0))
        raise GoneError(self._rng.choice([0, 1, 137, 139]))

    async def _boom(self) -> None:
        await self._act("run_cmd", {"cmd": "boom"})

    async def _hang(self) -> None:
        """Be silent: no beat, no word."""
        self._send = lambda _: None  # type: ignore[method-assign]
        await asyncio.sleep(1e6)

    async def _leave(self) -> None:
        code = self._rng.choice(LEAVES)
        if self._rng.random() < 0.5:
            kind = "temporary" if code == 75 else "configuration"
            await self._call(
                "leave", kind=kind, reason="busy", retry_after_s=self._rng.choice([0.1, 5.0])
            )
        raise GoneError(code)

    async def _flood(self) -> None:
        """Send many requests without waiting, and perhaps read no answer."""
        if self._rng.random() < 0.2:
            self._channel.deaf = True
        for n in range(self._rng.randint(2, 30)):
            tool, args = self._any_action()
            method = "propose" if self._kind == "own" else "act"
            params: dict[str, Any] = {"tool": tool, "args": args}
            if n % 3 == 0:
                method, params = "think", {"text": self._rng.choice(THOUGHTS)}
            self._send({"jsonrpc": "2.0", "id": 50_000 + n, "method": method, "params": params})
        if self._channel.deaf:
            await asyncio.sleep(PATIENCE_S)
            raise GoneError(1)

    async def _garbage(self) -> None:
        line = self._rng.choice([b"{\n", b"\xff\n", b'{"jsonrpc":"2.0","id":[1]}\n', b"[]\n"])
        self._channel.say(line)
        await asyncio.sleep(0.5)
