"""What a prompt is made of: one frozen view of a goal, read from what `hello` answers.

Agent and daemon build it from the same answer, so that `clew context` shows what the model is
shown. It knows nothing of messages (that is `prompt`) and nothing of HTTP.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Self

from clew_shared.playbook.bullet import Bullet
from clew_shared.playbook.text import render
from clew_shared.prompt.tools import REFLECT, is_small, offered, steady
from clew_shared.prompt.windows import Window, Windows
from clew_shared.wire.tools import Tool

Mode = Literal["tools", "json"]

MAX_ITERATIONS = 30
LATER_SHOWN = 3
CHARS_PER_TOKEN = 4.0


@dataclass(frozen=True, slots=True)
class Call:
    """One action of the transcript; `message` is what a refusal said.

    `insight` and `relevance` are what the model found in its result, one turn later.
    """

    seq: int
    name: str
    args: Mapping[str, Any]
    result: str
    output: str = ""
    message: str = ""
    changed: bool | None = None
    exit_code: int | None = None
    insight: str = ""
    relevance: str = ""
    signature: str = ""

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> Self:
        """Read one entry of `state.transcript`; what is missing or of another type is empty."""
        seq, args = raw.get("seq"), raw.get("args")
        return cls(
            seq=seq if isinstance(seq, int) else 0,
            name=str(raw.get("name") or ""),
            args=args if isinstance(args, Mapping) else {},
            result=str(raw.get("result") or ""),
            output=str(raw.get("output") or ""),
            message=str(raw.get("message") or ""),
            changed=raw.get("changed"),
            exit_code=raw.get("exit_code"),
            insight=str(raw.get("insight") or ""),
            relevance=str(raw.get("relevance") or ""),
            signature=str(raw.get("signature") or ""),
        )


@dataclass(frozen=True, slots=True)
class Said:
    """Words between the calls: the model's own (`assistant`), or a note to it (`user`).

    `warns` marks an intervention, which is shown however much is folded.
    """

    role: Literal["assistant", "user"]
    text: str
    warns: bool = False


Entry = Call | Said


@dataclass(frozen=True, slots=True)
class Finished:
    """A subtask that is over: one line of the prompt."""

    description: str
    summary: str = ""
    status: str = "completed"
    insights: tuple[str, ...] = ()


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
    plan: tuple[str, ...] = ()
    """What is still to do around the current subtask, a line each."""
    given_up: tuple[str, ...] = ()
    """What a replan set aside."""
    transcript: tuple[Entry, ...] = ()
    folded: int = 0
    """So many of the oldest entries are lines; never fewer than before."""
    probes: Mapping[str, bool] = field(default_factory=dict)
    blocked: tuple[str, ...] = ()
    feedback: tuple[str, ...] = ()
    idea: str = ""
    """What the model itself wanted to do next."""
    replan: Literal["task", "goal"] | None = None
    iteration: int = 0
    tools_used: int = 0
    max_iterations: int = MAX_ITERATIONS
    windows: Windows = field(default_factory=Windows)
    reflects: bool = False
    """The model is asked for a `reflect` part beside its calls."""
    max_tokens: int = 8000
    chars_per_token: float = CHARS_PER_TOKEN
    tightness: int = 0
    """How often a server found the prompt too long: each halves the room for the transcript."""

    @property
    def implicit(self) -> bool:
        """The goal has no plan: its one subtask bears its description."""
        return self.subtask == self.goal and self.open_subtasks <= 1 and not self.finished

    @property
    def window(self) -> Window:
        """How strictly the transcript is cut in this iteration."""
        return self.windows.at(self.iteration)


def view_from(
    hello: Mapping[str, Any],
    *,
    mode: Mode | None = None,
    transcript: Iterable[Entry] | None = None,
    chars_per_token: float = CHARS_PER_TOKEN,
    tightness: int = 0,
    acted: bool = False,
) -> View:
    """Make the view of what `hello` answered; `transcript` replaces that of the answer.

    `mode` defaults to that of `options.agent` (`auto` begins with tools).
    """
    state: Mapping[str, Any] = hello["state"]
    options: Mapping[str, Any] = hello.get("options") or {}
    context: Mapping[str, Any] = options.get("context") or {}
    agent: Mapping[str, Any] = options.get("agent") or {}
    spec: Mapping[str, Any] = hello.get("spec") or {}
    tree = state["goal"]
    task, subtask = current(state)
    entries = transcript_of(state) if transcript is None else tuple(transcript)
    own_limit = spec.get("max_iterations")
    mode = mode or ("json" if agent.get("mode") == "json" else "tools")
    reflects = agent.get("reflection") == "inline" and not is_small(hello)
    return View(
        goal=tree["description"],
        notes=hello.get("notes") or "",
        done_when=spec.get("done_when") or "",
        checks=hello.get("checks") or {},
        playbook=learned(hello.get("playbook") or ()),
        tools=(*offered(hello, acted=acted), *((REFLECT,) if reflects and mode == "tools" else ())),
        steady_tools=steady(hello),
        mode=mode,
        task=task.get("description", ""),
        subtask=subtask.get("description", ""),
        subtask_open=subtask.get("status") in ("pending", "in_progress"),
        attempts=subtask.get("attempts", 0),
        last_failure=subtask.get("last_failure") or "",
        next_subtask=_next_pending(state),
        open_subtasks=len(open_subtasks(state)),
        finished=tuple(map(_finished, state.get("finished") or ())),
        plan=_plan(state),
        given_up=tuple(state.get("given_up") or ()),
        transcript=entries,
        folded=min(state.get("folded") or 0, len(entries)),
        probes=state.get("last_probe_state") or {},
        blocked=tuple(state.get("blocked_actions") or ()),
        feedback=tuple(hello.get("feedback") or ()),
        idea=state.get("idea") or "",
        replan=state.get("replan_required") or None,
        iteration=state.get("iteration", 0) - (state.get("iterations_granted") or 0),
        tools_used=sum(s.get("actions_total", 0) for t in tree["tasks"] for s in t["subtasks"]),
        max_iterations=own_limit or context.get("max_iterations") or MAX_ITERATIONS,
        windows=_windows(context, own_limit),
        reflects=reflects,
        max_tokens=context.get("max_tokens", 8000),
        chars_per_token=chars_per_token,
        tightness=tightness,
    )


def view_on_record(hello: Mapping[str, Any]) -> View:
    """Make the view that an agent which begins now would have: form and token count as last recorded."""
    last: Mapping[str, Any] = hello["state"].get("prompt") or {}
    return view_from(
        hello,
        mode=recorded_mode(hello),
        chars_per_token=last.get("chars_per_token", CHARS_PER_TOKEN),
        tightness=last.get("tightness", 0),
    )


def recorded_mode(hello: Mapping[str, Any]) -> Mode:
    """Return the form of calls to begin with: the config's, and where that is `auto` the one last recorded."""
    agent = (hello.get("options") or {}).get("agent") or {}
    last = hello["state"].get("prompt") or {}
    asked = agent.get("mode", "auto")
    return "json" if "json" in (asked, last.get("mode") if asked == "auto" else "") else "tools"


def _windows(context: Mapping[str, Any], own_limit: int | None) -> Windows:
    """Read the windows; a goal that sets its own number of iterations stretches or shrinks them."""
    names = ("full_until", "moderate_until", "aggressive_until", "progress_from")
    windows = Windows(**{name: context[name] for name in names if name in context})
    usual = context.get("max_iterations") or MAX_ITERATIONS
    return windows.scaled(own_limit, usual) if own_limit else windows


def _finished(raw: Mapping[str, Any]) -> Finished:
    return Finished(
        raw["description"],
        raw.get("summary") or "",
        raw.get("status") or "completed",
        tuple(raw.get("insights") or ()),
    )


def _plan(state: Mapping[str, Any]) -> tuple[str, ...]:
    """Name what is still open in the current task, and the tasks after it."""
    tasks, here = state["goal"]["tasks"], state["current_task_idx"]
    task, now = current(state)
    lines = [
        f"- {s['description']}" + (" (now)" if s is now else "")
        for s in task.get("subtasks", ())
        if s is now or s["status"] in ("pending", "in_progress")
    ]
    later = [t["description"] for t in tasks[here + 1 :] if t["status"] in _STILL_OPEN]
    lines += [f"- later: {name}" for name in later[:LATER_SHOWN]]
    more = len(later) - LATER_SHOWN
    return (*lines, *([f"- and {more} more tasks"] if more > 0 else []))


def learned(bullets: Iterable[Mapping[str, Any]]) -> str:
    """Write the playbook that `hello` gave as a model reads it, section by section; "" for none."""
    return render(Bullet.from_dict(bullet) for bullet in bullets)


def transcript_of(state: Mapping[str, Any]) -> tuple[Entry, ...]:
    """Read the current subtask's transcript from a state: actions, and words between them."""
    return tuple(entry_from(raw) for raw in state.get("transcript") or ())


def entry_from(raw: Mapping[str, Any]) -> Entry:
    """Read one entry of a transcript: words if it has a `role`, else a call."""
    if "role" not in raw:
        return Call.from_dict(raw)
    role: Literal["assistant", "user"] = "assistant" if raw["role"] == "assistant" else "user"
    return Said(role, str(raw.get("text") or ""), bool(raw.get("warns")))


def current(state: Mapping[str, Any]) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Find the current task and subtask of a state; empty if there is none."""
    tasks = state["goal"]["tasks"]
    t, s = state["current_task_idx"], state["current_subtask_idx"]
    task = tasks[t] if 0 <= t < len(tasks) else {}
    subtasks = task.get("subtasks", [])
    return task, subtasks[s] if 0 <= s < len(subtasks) else {}


_STILL_OPEN = ("pending", "in_progress", "blocked")


def open_subtasks(state: Mapping[str, Any]) -> list[str]:
    """Name what is still to be done."""
    return [
        s["description"]
        for t in state["goal"]["tasks"]
        for s in t["subtasks"]
        if s["status"] in _STILL_OPEN
    ]


def _next_pending(state: Mapping[str, Any]) -> str:
    for task in state["goal"]["tasks"]:
        for subtask in task["subtasks"]:
            if subtask["status"] == "pending":
                return str(subtask["description"])
    return ""
