"""What this context costs against an append-only transcript, on one scripted goal: python -m bench.context

A real daemon and its llm agent work through 10 tasks of 5 subtasks of 4 commands (outputs of 0.2 to 8 KB), led by
a scripted endpoint. What it was really asked is compared, request by request, with what would have been asked for the
same step by

- an append-only transcript: every call and its whole output;
- re-cutting every turn: system, goal, and as many of the newest whole pairs as fit the same token budget;
- the need-to-know text alone (`get_compact_context`), which is small and hides outputs.

Tokens are characters / 4. A prefix cache serves what a prompt has in common with the one before: such a token costs
0.1, any other 1.25 (written). Nothing is asserted.
"""

import argparse
import itertools
import json
import os
import random
import statistics
import time

from bench.endpoint import Asked, Endpoint, tool_call
from bench.home import temporary, wait_for
from bench.page import table

from clew_daemon.record.hello import hello_answer
from clew_shared.config.agent_tables import LlmAgentSettings
from clew_shared.config.tables import Settings
from clew_shared.ledger.reader import Reader
from clew_shared.prompt.compact import compact_context
from clew_shared.record.codec import decode
from clew_shared.record.fold import apply
from clew_shared.record.state import State
from clew_shared.wire.hello import HelloAnswer
from clew_worker.agent.work import Memory

SEED = 7
TASKS, SUBTASKS, ACTIONS = 10, 5, 4
MAX_TOKENS, CHARS_PER_TOKEN = 8000, 4
CACHED, WRITTEN = 0.1, 1.25
DEADLINE_S = 300
COLUMNS = {
    "calls": "{}",
    "median": "{:,.0f}",
    "largest": "{:,}",
    "all": "{:,}",
    "served from the prefix": "{:.1%}",
    "cost": "{:,.0f}",
}
Turn = tuple[str, dict[str, object]]


def script() -> list[Turn]:
    """Return what the model answers, turn by turn: commands with different outputs, and the ends of subtasks."""
    random.seed(SEED)
    turns: list[Turn] = []
    for task, subtask in itertools.product(range(TASKS), range(SUBTASKS)):
        for action in range(ACTIONS):
            size = random.choice((200, 400, 800, 2000, 4000, 8000)) * random.uniform(0.9, 1.0)
            name = f"{task}.{subtask}.{action}"
            lines = f"seq -f 'line %g of {name}' 1 900 | head -c {round(size)}"
            turns.append(("run_cmd", {"cmd": f"echo {name} >> log; {lines}"}))
        summary = f"the log has its lines for step {task}.{subtask}, and nothing else was changed"
        turns.append(("complete_subtask", {"success": True, "summary": summary}))
    return turns


def text_of(body: dict) -> str:
    """Return a request as chat templates write it: tools first, then the messages in their order."""
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


class LedgerUntil:
    """The ledger as it was at an event."""

    def __init__(self, reader: Reader, seq: int) -> None:
        self._reader, self._seq, self.output = reader, seq, reader.output

    def read(self, goal: str, after: int = 0, limit: int | None = None):
        rows = self._reader.read(goal, after, limit)
        return itertools.takewhile(lambda row: row.seq <= self._seq, rows)


def replay(
    reader: Reader, settings: Settings, agent: LlmAgentSettings
) -> tuple[list[str], int, dict]:
    """Return the need-to-know text by turn, its largest size, and what a prompt takes to build."""
    by_turn, largest, build_ms, state, actions = [], 0, {}, State(), 0
    (goal,) = [name for name in reader.goals() if name]
    for row in reader.read(goal):
        apply(state, decode(row.body), row.seq)
        text = compact_context(state, settings.context.max_chars)
        largest = max(largest, len(text))
        actions += row.kind == "action_finished"
        if row.kind == "reflected":
            by_turn.append(text)
            if actions % 20 == 0 and actions not in build_ms:
                hello = hello_answer(state, settings, agent, LedgerUntil(reader, row.seq), [])
                build_ms[actions] = build_time_ms(hello)
    return by_turn, largest, build_ms


def build_time_ms(hello: HelloAnswer) -> float:
    memory = Memory(hello)
    times = []
    for _ in range(60):
        began = time.perf_counter()
        _ = memory.laid_out().messages
        times.append((time.perf_counter() - began) * 1000)
    return statistics.median(times)


def transcripts(head: str, turns: list[Turn], outputs: list[str], budget: float) -> list[str]:
    """Return what the newest whole pairs that fit a budget of characters would have been, at each turn."""
    pairs, texts, left = [], [], iter(outputs)
    for name, arguments in turns:
        chosen, room = [], budget - len(head)
        for pair in reversed(pairs):
            room -= len(pair)
            if room < 0:
                break
            chosen.append(pair)
        texts.append(head + "".join(reversed(chosen)))
        turn = {"name": name, "arguments": json.dumps(arguments)}
        output = "Next." if name == "complete_subtask" else next(left)
        pairs.append(f"<assistant>{json.dumps(turn)}<tool>{output}")
    return texts


def measured(texts: list[str]) -> tuple[float, ...]:
    """Return the values of the columns."""
    sizes = [tokens(text) for text in texts]
    common = [len(os.path.commonprefix(pair)) for pair in itertools.pairwise(texts)]  # noqa: RUF071 - by characters
    served = [0, *(chars // CHARS_PER_TOKEN for chars in common)]
    cost = sum(CACHED * c + WRITTEN * (n - c) for n, c in zip(sizes, served, strict=True))
    median, total = statistics.median(sizes), sum(sizes)
    return len(sizes), median, max(sizes), total, sum(served) / total, cost


def work(turns: list[Turn]) -> tuple[list[dict], list[str], tuple[list[str], int, dict], int]:
    """Work the goal off; return the requests, the outputs, the replay, and the number of actions."""
    requests: list[dict] = []

    def answer(asked: Asked) -> bytes:
        requests.append(json.loads(asked.body))
        name, arguments = turns[min(len(requests), len(turns)) - 1]
        used = tokens(text_of(requests[-1]))
        usage = {"prompt_tokens": used, "completion_tokens": 40, "total_tokens": used + 40}
        return tool_call(name, usage, **arguments)

    with Endpoint(answer) as llm:
        model = f"base_url = '{llm.url}'\nmodel = 'scripted'\nmode = 'tools'\n"
        context = f"[context]\nmax_tokens = {MAX_TOKENS}\n[playbook]\nenabled = false\n"
        with temporary(f"[agents.scripted]\nkind = 'llm'\n{model}{context}") as home:
            home.start().drop("goal.md", goal_text())
            wait_for(lambda: any((home.folder / "outbox").glob("*.md")), DEADLINE_S, 0.1)
            home.stop()
            agent = LlmAgentSettings(base_url=llm.url, model="scripted", mode="tools")
            with Reader.open(home.folder / "state" / "ledger.db") as reader:
                replayed = replay(reader, Settings(), agent)
                (goal,) = [name for name in reader.goals() if name]
                rows = [row for row in reader.read(goal) if row.kind == "action_finished"]
                outputs = [(reader.output(row.seq) or b"").decode() for row in rows]
            (history,) = home.workspaces("*/.agent_context/history.jsonl")
            return requests[: len(turns)], outputs, replayed, len(history.read_text().splitlines())


def main() -> None:
    argparse.ArgumentParser(prog="python -m bench.context", description=__doc__).parse_args()
    turns = script()
    requests, outputs, (by_turn, largest, build_ms), actions = work(turns)
    system = text_of({"tools": requests[0]["tools"], "messages": requests[0]["messages"][:1]})
    head = system + "<user>" + goal_text()
    found = {
        "append-only": measured(transcripts(head, turns, outputs, float("inf"))),
        "re-cut every turn": measured(
            transcripts(head, turns, outputs, MAX_TOKENS * CHARS_PER_TOKEN)
        ),
        "need-to-know text alone": measured([f"{system}<user>{text}" for text in by_turn]),
        "clew": measured([text_of(body) for body in requests]),
    }
    sizes = [len(one) for one in outputs]
    print(f"{actions} actions, outputs {min(sizes)} to {max(sizes)} bytes, seed {SEED}")
    print(f"load {os.getloadavg()[0]:.2f}; the largest need-to-know text: {largest} characters\n")
    rows = [
        [name, *(form.format(value) for form, value in zip(COLUMNS.values(), row, strict=True))]
        for name, row in found.items()
    ]
    print(table(["", *COLUMNS], rows))
    print(
        f"\nmedian prompt: {found['clew'][1] / found['append-only'][1]:.1%} of the append-only one"
    )
    steps = ", ".join(f"{n}: {ms:.2f}" for n, ms in build_ms.items())
    print(f"building a prompt, ms at action N: {steps}")


if __name__ == "__main__":
    main()
