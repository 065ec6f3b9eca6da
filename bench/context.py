"""What this context costs against an append-only transcript, on one scripted goal: python -m bench.context [--json]

A real daemon and its llm agent work through 10 tasks of 5 subtasks of 4 commands (outputs of 0.2 to 8 KB), led by
a scripted OpenAI-compatible server on loopback. What the server was really asked is compared, request by request,
with what would have been asked for the same step by

- an append-only transcript: every call and its whole output, nothing ever dropped;
- re-cutting every turn: system, goal, and as many of the newest whole pairs as fit the same token budget;
- the need-to-know text alone (`get_compact_context`), which is small and hides outputs.

Tokens are characters / 4 for all alike. A prefix cache is reckoned to serve what a prompt has in common with the
one before: such a token costs 0.1, any other 1.25 (written). Nothing is asserted.
"""

from __future__ import annotations

import http.server
import itertools
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from clew_daemon.record.hello import told
from clew_shared.config.settings import LlmAgentSettings, Settings
from clew_shared.ledger import Reader
from clew_shared.prompt.compact import compact_context
from clew_shared.record import events as ev
from clew_shared.record.fold import apply
from clew_shared.record.state import State
from clew_worker.agent.memory import Memory

SEED = 7
TASKS, SUBTASKS, ACTIONS = 10, 5, 4
MAX_TOKENS, CHARS_PER_TOKEN = 8000, 4
CACHED, WRITTEN = 0.1, 1.25
DEADLINE_S = 300


def script() -> list[dict]:
    """Write what the model says, turn by turn: commands with outputs of their own, and the ends of subtasks."""
    random.seed(SEED)
    turns = []
    for task, subtask in itertools.product(range(TASKS), range(SUBTASKS)):
        for action in range(ACTIONS):
            size = round(
                random.choice((200, 400, 800, 2000, 4000, 8000)) * random.uniform(0.9, 1.0)
            )
            name = f"{task}.{subtask}.{action}"
            cmd = f"echo {name} >> log; seq -f 'line %g of {name}' 1 900 | head -c {size}"
            turns.append({"name": "run_cmd", "arguments": json.dumps({"cmd": cmd})})
        summary = f"the log has its lines for step {task}.{subtask}, and nothing else was changed"
        done = json.dumps({"success": True, "summary": summary})
        turns.append({"name": "complete_subtask", "arguments": done})
    return turns


class Model(http.server.BaseHTTPRequestHandler):
    """Plays the script, one turn a request, and keeps what it was asked."""

    protocol_version = "HTTP/1.1"
    turns: list[dict]
    requests: list[dict]

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        at = len(self.requests)
        self.requests.append(body)
        function = self.turns[min(at, len(self.turns) - 1)]
        call = {"id": f"c{at}", "type": "function", "function": function}
        message = {"role": "assistant", "content": None, "tool_calls": [call]}
        used = tokens(text_of(body))
        usage = {"prompt_tokens": used, "completion_tokens": 40, "total_tokens": used + 40}
        answer = {"choices": [{"message": message, "finish_reason": "tool_calls"}], "usage": usage}
        data = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


def text_of(body: dict) -> str:
    """Write a request as chat templates do: tools first, then the messages in their order."""
    parts = [json.dumps(body.get("tools", []))]
    for message in body["messages"]:
        calls = json.dumps(message.get("tool_calls") or "")
        parts.append(f"<{message['role']}>{message['content']}{calls}")
    return "".join(parts)


def tokens(text: str) -> int:
    return len(text) // CHARS_PER_TOKEN


def goal_text() -> str:
    lines = ["---", f"max_iterations: {TASKS * SUBTASKS * (ACTIONS + 2)}", "---", "# Write the log"]
    for task in range(TASKS):
        lines.append(f"## Part {task} of the log")
        lines += [f"- [ ] Write the lines of step {task}.{s}" for s in range(SUBTASKS)]
    return "\n".join(lines) + "\n"


def run(home: Path) -> None:
    """Work the goal off, with the real daemon and its agent."""
    (home / "inbox").mkdir()
    (home / "inbox" / "goal.md").write_text(goal_text())
    with (home / "log").open("w") as log:
        command = [sys.executable, "-m", "clew_daemon", "--home", str(home), "run"]
        daemon = subprocess.Popen(command, stdout=log)
    try:
        until = time.monotonic() + DEADLINE_S
        while not any((home / "outbox").glob("*.md")):
            if daemon.poll() is not None or time.monotonic() > until:
                sys.exit((home / "log").read_text()[-2000:])
            time.sleep(0.1)
    finally:
        daemon.send_signal(signal.SIGTERM)
        daemon.wait(20)


class UpTo:
    """The ledger as it was at an event, for `told`."""

    def __init__(self, reader: Reader, seq: int) -> None:
        self._reader, self._seq = reader, seq

    def read(self, goal: str, after: int = 0, limit: int | None = None):
        rows = self._reader.read(goal, after, limit)
        return itertools.takewhile(lambda row: row.seq <= self._seq, rows)

    def output(self, seq: int) -> bytes | None:
        return self._reader.output(seq)


def replay(
    home: Path, settings: Settings, agent: LlmAgentSettings
) -> tuple[list[int], list[str], dict]:
    """Read the run back: sizes of the need-to-know text, its texts by turn, and what a prompt takes to build."""
    compact, by_turn, build_ms, state, actions = [], [], {}, State(), 0
    with Reader.open(home / "state" / "ledger.db") as reader:
        (goal,) = [name for name in reader.goals() if name]
        for row in reader.read(goal):
            apply(state, ev.decode(row.body), row.seq)
            compact.append(len(compact_context(state, settings.context.max_chars)))
            if row.kind == "reflected":
                by_turn.append(compact_context(state, settings.context.max_chars))
            actions += row.kind == "action_finished"
            if row.kind == "reflected" and actions % 20 == 0 and actions not in build_ms:
                hello = told(state, settings, agent, UpTo(reader, row.seq), [])
                build_ms[actions] = build_time_ms(hello)
    return compact, by_turn, build_ms


def build_time_ms(hello: dict) -> float:
    memory = Memory()
    memory.learn(hello)
    times = []
    for _ in range(60):
        began = time.perf_counter()
        _ = memory.laid().messages
        times.append((time.perf_counter() - began) * 1000)
    return statistics.median(times)


def append_only(requests: list[dict], turns: list[dict], outputs: list[str]) -> list[str]:
    """Write what a transcript that only grows would have been, at each turn."""
    head = text_of({"tools": requests[0]["tools"], "messages": requests[0]["messages"][:1]})
    grown, texts, at = head + "<user>" + goal_text(), [], 0
    for turn in turns:
        texts.append(grown)
        output = "Next." if turn["name"] == "complete_subtask" else outputs[at]
        at += turn["name"] != "complete_subtask"
        grown += f"<assistant>{json.dumps(turn)}<tool>{output}"
    return texts


def recut(requests: list[dict], turns: list[dict], outputs: list[str]) -> list[str]:
    """Write what the newest whole pairs that fit the budget would have been, cut anew at each turn."""
    head = text_of({"tools": requests[0]["tools"], "messages": requests[0]["messages"][:1]})
    head += "<user>" + goal_text()
    pairs, texts, at = [], [], 0
    for turn in turns:
        kept, room = [], MAX_TOKENS * CHARS_PER_TOKEN - len(head)
        for pair in reversed(pairs):
            room -= len(pair)
            if room < 0:
                break
            kept.append(pair)
        texts.append(head + "".join(reversed(kept)))
        output = "Next." if turn["name"] == "complete_subtask" else outputs[at]
        at += turn["name"] != "complete_subtask"
        pairs.append(f"<assistant>{json.dumps(turn)}<tool>{output}")
    return texts


def common(before: str, now: str) -> int:
    """Count the characters that two texts begin with alike."""
    pairs = enumerate(zip(before, now, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(before), len(now)))


def measured(texts: list[str]) -> dict:
    sizes = [tokens(text) for text in texts]
    served = [0, *(common(a, b) // CHARS_PER_TOKEN for a, b in itertools.pairwise(texts))]
    cost = sum(CACHED * c + WRITTEN * (n - c) for n, c in zip(sizes, served, strict=True))
    return {
        "calls": len(sizes),
        "median": statistics.median(sizes),
        "largest": max(sizes),
        "total": sum(sizes),
        "served from the prefix": round(sum(served) / sum(sizes), 3),
        "cost": round(cost),
    }


def main() -> None:
    turns = script()
    Model.turns, Model.requests = turns, []
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Model)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    where = os.environ.get("BENCH_DIR", "/var/tmp")
    with tempfile.TemporaryDirectory(prefix="clew-bench-", dir=where) as name:
        home, url = Path(name), f"http://127.0.0.1:{server.server_port}/v1"
        (home / "config.toml").write_text(
            f"[agents.scripted]\nkind = 'llm'\nbase_url = '{url}'\nmodel = 'scripted'\nmode = 'tools'\n"
            f"[context]\nmax_tokens = {MAX_TOKENS}\n[playbook]\nenabled = false\n"
        )
        run(home)
        agent = LlmAgentSettings(base_url=url, model="scripted", mode="tools")
        compact, by_turn, build_ms = replay(home, Settings(), agent)
        (history,) = home.glob("workspaces/*/.agent_context/history.jsonl")
        with Reader.open(home / "state" / "ledger.db") as reader:
            (goal,) = [one for one in reader.goals() if one]
            rows = [row for row in reader.read(goal) if row.kind == "action_finished"]
            outputs = [(reader.output(row.seq) or b"").decode() for row in rows]
        actions = len(history.read_text().splitlines())
    server.shutdown()
    requests = Model.requests[: len(turns)]
    system = text_of({"tools": requests[0]["tools"], "messages": requests[0]["messages"][:1]})
    found = {
        "append-only": measured(append_only(requests, turns, outputs)),
        "re-cut every turn": measured(recut(requests, turns, outputs)),
        "need-to-know text alone": measured([f"{system}<user>{text}" for text in by_turn]),
        "clew": measured([text_of(body) for body in requests]),
    }
    if "--json" in sys.argv:
        print(json.dumps({"kinds": found, "need_to_know": max(compact), "build_ms": build_ms}))
        return
    sizes = [len(one) for one in outputs]
    print(f"{actions} actions, outputs {min(sizes)} to {max(sizes)} bytes, seed {SEED}")
    print(
        f"load {os.getloadavg()[0]:.2f}; the largest need-to-know text: {max(compact)} characters\n"
    )
    print("| | calls | median | largest | all | served from the prefix | cost |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for name, row in found.items():
        print(
            f"| {name} | {row['calls']} | {row['median']:,.0f} | {row['largest']:,} | {row['total']:,}"
            f" | {row['served from the prefix']:.1%} | {row['cost']:,} |"
        )
    share = found["clew"]["median"] / found["append-only"]["median"]
    print(f"\nmedian prompt: {share:.1%} of the append-only one")
    steps = ", ".join(f"{n}: {ms:.2f}" for n, ms in build_ms.items())
    print(f"building a prompt, ms at action N: {steps}")


if __name__ == "__main__":
    main()
