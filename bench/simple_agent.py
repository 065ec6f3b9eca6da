"""The built-in agent with the need-to-know text alone, to compare with: simple_agent.py BASE_URL MODEL MODE.

Goal, task, subtask, the last three actions by name and result, what is next: small, and without any output. All
else (turns, refusals, checks, the gate) is the built-in agent's.
"""

import asyncio
import json
import os
import socket
import sys
from dataclasses import replace

from clew_shared.prompt.layout import PromptLayout, lay_out
from clew_shared.wire.hello import AgentOptions, Call, HelloAnswer
from clew_worker.agent.life import live
from clew_worker.agent.llm import LlmAgent
from clew_worker.agent.memory import Memory

RECENT = 3
ARGS_CHARS = 120


class SimpleMemory(Memory):
    """The memory, laid out as one short text."""

    def __init__(self, agent: AgentOptions):
        super().__init__()
        self._agent = agent

    def update(self, hello: HelloAnswer, *, replanned: bool = False) -> None:
        options = hello.options.model_copy(update={"agent": self._agent})
        hello = hello.model_copy(update={"options": options, "playbook": ()})
        super().update(hello, replanned=replanned)

    def laid_out(self) -> PromptLayout:
        layout = super().laid_out()
        view = layout.view
        bare = lay_out(replace(view, transcript=(), folded=0, finished=(), given_up=()))
        system = next(block for name, block in bare.blocks if name == "system")
        return replace(
            layout,
            blocks=(("system", system), ("state", [{"role": "user", "content": _text(view)}])),
        )


def _text(view) -> str:
    calls = [entry for entry in view.transcript if isinstance(entry, Call)][-RECENT:]
    lines = [
        f"GOAL: {view.goal}",
        "Status: in_progress",
        f"CURRENT TASK: {view.task}",
        f"ACTIVE SUBTASK: {view.subtask}",
        f"Attempt: {view.attempts + 1}",
        *(f"CHECK: {name}: {command}" for name, command in view.checks.items()),
        "Recent Actions:",
    ]
    for call in calls:
        args = json.dumps(dict(call.args), ensure_ascii=False)[:ARGS_CHARS]
        lines.append(f"  - {call.name} {args} → {call.result}")
    lines.append(f"NEXT: {view.next_subtask or 'finish'}")
    lines += [f"BLOCKED: {name[:ARGS_CHARS]}" for name in view.blocked]
    return "\n".join([*lines, "Call the next tool; when the goal is reached, call finish."])


def main() -> int:
    base_url, model, mode = sys.argv[1:4]
    agent = AgentOptions(
        base_url=base_url,
        model=model,
        mode=mode,
        temperature=0.2,
        timeout_s=600.0,
        reflection="off",
    )
    sock = socket.socket(fileno=int(os.environ["CLEW_FD"]))
    memory = SimpleMemory(agent)
    return asyncio.run(live(sock, lambda daemon: LlmAgent(daemon, memory)))


if __name__ == "__main__":
    sys.exit(main())
