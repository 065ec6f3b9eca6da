"""What a prompt is made of: one frozen view of a goal, read from what `hello` answers.

Agent and daemon build it from the same answer, so that `clew context` shows what the model is
shown. It knows nothing of messages (that is `prompt`) and nothing of HTTP.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Self

from clew_shared.playbook.bullet import Bullet
from clew_shared.playbook.text import render
from clew_shared.prompt_tools import offered, steady
from clew_shared.tools import Tool

Mode = Literal["tools", "json"]

MAX_ITERATIONS = 30
URGENT_SHARE = 2 / 3
LAST_SHARE = 9 / 10


@dataclass(frozen=True, slots=True)
class Call:
    """One action of the transcript; `message` is what a refusal said."""

    seq: int
    name: str
    args: Mapping[str, Any]
    result: str
    output: str = ""
    message: str = ""
    changed: bool | None = None
    exit_code: int | None = None

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> Self:
        """Read one entry of `state.transcript`; what is missing is empty."""
        return cls(
            seq=int(raw.get("seq") or 0),
            name=str(raw.get("name") or ""),
            args=raw.get("args") or {},
            result=str(raw.get("result") or ""),
            output=str(raw.get("output") or ""),
            message=str(raw.get("message") or ""),
            changed=raw.get("changed"),
            exit_code=raw.get("exit_code"),
        )


@dataclass(frozen=True, slots=True)
class Said:
    """Words between the calls: the model's own (`assistant`), or a note to it (`user`)."""

    role: Literal["assistant", "user"]
    text: str


Entry = Call | Said


@dataclass(frozen=True, slots=True)
class Finished:
    """A subtask that is over: one line of the prompt."""

    description: str
    summary: str = ""
    status: str = "completed"


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """All that a prompt shows; equal views give equal bytes."""

    goal: str
    notes: str = ""
    done_when: str = ""
    checks: Mapping[str, str] = field(default_factory=dict)
    playbook: str = ""
    tools: tuple[Tool, ...] = ()
    """What is offered now."""
    steady_tools: tuple[Tool, ...] = ()
    """What the system prompt of json mode lists."""
    mode: Mode = "tools"
    task: str = ""
    subtask: str = ""
    subtask_open: bool = True
    attempts: int = 0
    last_failure: str = ""
    next_subtask: str = ""
    open_subtasks: int = 1
    finished: tuple[Finished, ...] = ()
    transcript: tuple[Entry, ...] = ()
    probes: Mapping[str, bool] = field(default_factory=dict)
    blocked: tuple[str, ...] = ()
    feedback: tuple[str, ...] = ()
    replan: Literal["task", "goal"] | None = None
    iteration: int = 0
    tools_used: int = 0
    max_iterations: int = MAX_ITERATIONS
    progress_from: int = 5
    max_tokens: int = 8000
    chars_per_token: float = 4.0
    tightness: int = 0
    """How often a server found the prompt too long: each halves the room for the transcript."""

    @property
    def implicit(self) -> bool:
        """The goal has no plan: its one subtask bears its description."""
        return self.subtask == self.goal and self.open_subtasks <= 1 and not self.finished


def view_from(
    hello: Mapping[str, Any],
    *,
    mode: Mode | None = None,
    transcript: Iterable[Entry] | None = None,
    chars_per_token: float = 4.0,
    tightness: int = 0,
) -> View:
    """Make the view of what `hello` answered; `transcript` replaces that of the answer.

    `mode` defaults to that of `options.agent` (`auto` begins with tools).
    """
    state: Mapping[str, Any] = hello["state"]
    options: Mapping[str, Any] = hello.get("options") or {}
    context: Mapping[str, Any] = options.get("context") or {}
    spec: Mapping[str, Any] = hello.get("spec") or {}
    tree = state["goal"]
    task, subtask = current(state)
    entries = transcript_of(state) if transcript is None else tuple(transcript)
    asked_mode = (options.get("agent") or {}).get("mode")
    limit = spec.get("max_iterations") or context.get("max_iterations") or MAX_ITERATIONS
    return View(
        goal=tree["description"],
        notes=hello.get("notes") or "",
        done_when=spec.get("done_when") or "",
        checks=hello.get("checks") or {},
        playbook=learned(hello.get("playbook") or ()),
        tools=offered(hello),
        steady_tools=steady(hello),
        mode=mode or ("json" if asked_mode == "json" else "tools"),
        task=task.get("description", ""),
        subtask=subtask.get("description", ""),
        subtask_open=subtask.get("status") in ("pending", "in_progress"),
        attempts=subtask.get("attempts", 0),
        last_failure=subtask.get("last_failure", ""),
        next_subtask=_next_pending(state),
        open_subtasks=len(open_subtasks(state)),
        finished=tuple(
            Finished(f["description"], f.get("summary") or "", f.get("status") or "completed")
            for f in state.get("finished") or ()
        ),
        transcript=entries,
        probes=state.get("last_probe_state") or {},
        blocked=tuple(state.get("blocked_actions") or ()),
        feedback=tuple(hello.get("feedback") or ()),
        replan=state.get("replan_required") or None,
        iteration=state.get("iteration", 0),
        tools_used=sum(s.get("actions_total", 0) for t in tree["tasks"] for s in t["subtasks"]),
        max_iterations=limit,
        progress_from=context.get("progress_from", 5),
        max_tokens=context.get("max_tokens", 8000),
        chars_per_token=chars_per_token,
        tightness=tightness,
    )


def learned(bullets: Iterable[Mapping[str, Any]]) -> str:
    """Write the playbook that `hello` gave as a model reads it, section by section; "" for none."""
    return render(Bullet.from_dict(bullet) for bullet in bullets)


def transcript_of(state: Mapping[str, Any]) -> tuple[Entry, ...]:
    """Read the current subtask's actions from a state."""
    return tuple(Call.from_dict(raw) for raw in state.get("transcript") or ())


def current(state: Mapping[str, Any]) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Find the current task and subtask of a state; empty where there is none."""
    tasks = state["goal"]["tasks"]
    t, s = state["current_task_idx"], state["current_subtask_idx"]
    task = tasks[t] if 0 <= t < len(tasks) else {}
    subtasks = task.get("subtasks", [])
    return task, subtasks[s] if 0 <= s < len(subtasks) else {}


def open_subtasks(state: Mapping[str, Any]) -> list[str]:
    """Name what is still to be done."""
    return [
        s["description"]
        for t in state["goal"]["tasks"]
        for s in t["subtasks"]
        if s["status"] in ("pending", "in_progress", "blocked")
    ]


def _next_pending(state: Mapping[str, Any]) -> str:
    for task in state["goal"]["tasks"]:
        for subtask in task["subtasks"]:
            if subtask["status"] == "pending":
                return str(subtask["description"])
    return ""
