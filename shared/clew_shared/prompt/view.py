"""What a prompt is made of: one frozen view of a goal, built from the answer to `hello`.

Agent and daemon build it from the same answer, so that `clew context` shows what the model is shown. It knows
nothing of messages (that is `layout`) and nothing of HTTP.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from clew_shared.core.budgets import TurnsLeft
from clew_shared.guidance.notes import absent
from clew_shared.playbook.bullet import Bullet
from clew_shared.playbook.text import render
from clew_shared.prompt.tools import REFLECT, is_small, offered_tools, steady_tools
from clew_shared.prompt.windows import Window, Windows
from clew_shared.tools import Tool
from clew_shared.wire.hello import (
    AttemptTerms,
    Call,
    Entry,
    FinishedSubtask,
    HelloAnswer,
    HelloState,
    Mode,
    SentProbe,
)

LATER_SHOWN = 3
CHARS_PER_TOKEN = 4.0


@dataclass(frozen=True, slots=True)
class GoalProgress:
    """The goal's iterations so far, the most there may be, and the tools used, as the progress marker shows them.

    They are counted over all attempts, plans and workers, so that they never go down.
    """

    iteration: int = 0
    max_iterations: int = 30
    tools_used: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptView:
    """All that a prompt shows; equal views give equal bytes.

    `tools` are offered now, `steady_tools` listed by the system prompt of json mode. `plan` has a line for each open
    subtask, `given_up` those that a replan gave up, `untried` those that the required replan may replace, by number.
    The first `folded` entries of the transcript are shown as lines; that number never decreases in a subtask. `idea` is
    what the model itself wanted to do next. `turn` is that of this conversation, from 0; the windows go by it. `there`
    are some paths in the workspace, before the first call, `absent` files that the checks name and that were not there
    when the conversation began. `guided` is whether the request for the next call says what
    the facts ask for, `reflects` whether the model may add a `reflect` part. `tightness` is how often a server found
    the prompt too long: each time halves the room for the transcript.
    """

    goal: str
    notes: str = ""
    done_when: str = ""
    checks: Mapping[str, str] = field(default_factory=dict)
    playbook: str = ""
    tools: tuple[Tool, ...] = ()
    steady_tools: tuple[Tool, ...] = ()
    mode: Mode = "tools"
    task: str = ""
    subtask: str = ""
    subtask_open: bool = True
    attempts: int = 0
    last_failure: str = ""
    attempt: AttemptTerms = field(default_factory=AttemptTerms)
    next_subtask: str = ""
    open_subtasks: int = 1
    finished: tuple[FinishedSubtask, ...] = ()
    plan: tuple[str, ...] = ()
    given_up: tuple[str, ...] = ()
    untried: tuple[str, ...] = ()
    transcript: tuple[Entry, ...] = ()
    folded: int = 0
    probes: Mapping[str, SentProbe] = field(default_factory=dict)
    blocked: tuple[str, ...] = ()
    feedback: tuple[str, ...] = ()
    idea: str = ""
    replan: Literal["task", "goal", "person"] | None = None
    turn: int = 0
    left: TurnsLeft | None = None
    progress: GoalProgress = field(default_factory=GoalProgress)
    windows: Windows = field(default_factory=Windows)
    there: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    guided: bool = True
    reflects: bool = False
    max_tokens: int = 8000
    chars_per_token: float = CHARS_PER_TOKEN
    tightness: int = 0

    @property
    def implicit(self) -> bool:
        """Whether the goal has no plan: its one subtask bears its description."""
        return self.subtask == self.goal and self.open_subtasks <= 1 and not self.finished

    @property
    def window(self) -> Window:
        """How strictly the transcript is cut in this turn."""
        return self.windows.at(self.turn)


def view_from(
    hello: HelloAnswer,
    *,
    mode: Mode | None = None,
    chars_per_token: float = CHARS_PER_TOKEN,
    tightness: int = 0,
) -> PromptView:
    """Return the view of an answer to `hello`; `mode` defaults to the agent's (`auto` begins with tools)."""
    state, subtask, context = hello.state, hello.state.subtask, hello.options.context
    agent, entries = hello.options.agent, hello.state.transcript
    limit = hello.spec.max_iterations or context.max_iterations
    mode = mode or ("json" if agent.mode == "json" else "tools")
    reflects = agent.reflection != "off" and not is_small(hello)
    own_tools = (REFLECT,) if reflects and mode == "tools" else ()
    return PromptView(
        goal=state.goal.description,
        notes=hello.notes,
        done_when=hello.spec.done_when,
        checks=hello.checks,
        playbook=playbook_text(hello.playbook),
        tools=(*offered_tools(hello), *own_tools),
        steady_tools=steady_tools(hello),
        mode=mode,
        task=state.task.description,
        subtask=subtask.description,
        subtask_open=subtask.open,
        attempts=subtask.attempts,
        last_failure=subtask.last_failure or "",
        attempt=hello.attempt,
        next_subtask=state.next_pending,
        open_subtasks=len(state.open_subtasks),
        finished=state.finished,
        plan=_plan(state),
        given_up=state.given_up,
        untried=_untried(state),
        transcript=entries,
        folded=min(state.folded, len(entries)),
        probes=_probes(state),
        blocked=state.blocked_actions,
        feedback=hello.feedback,
        idea=state.idea,
        replan=state.replan_required,
        # a conversation begins with each subtask, and with each attempt at it
        turn=max(state.iteration - hello.attempt.from_iteration, 0),
        left=state.turns_left,
        progress=GoalProgress(
            state.iteration, state.iterations_granted + limit, state.actions_total
        ),
        windows=Windows(
            full_until=context.full_until,
            moderate_until=context.moderate_until,
            aggressive_until=context.aggressive_until,
            progress_from=context.progress_from,
            emergency_results=context.recent_actions,
        ),
        there=() if any(isinstance(e, Call) for e in entries) else state.there,
        absent=absent(hello.checks.values(), state.there),
        guided=context.guidance,
        reflects=reflects,
        max_tokens=context.max_tokens,
        chars_per_token=chars_per_token,
        tightness=tightness,
    )


def view_on_record(hello: HelloAnswer) -> PromptView:
    """Return the view of an agent that begins now: mode and token count as last recorded."""
    last = hello.state.prompt
    return view_from(
        hello,
        mode=recorded_mode(hello),
        chars_per_token=last.chars_per_token if last else CHARS_PER_TOKEN,
        tightness=last.tightness if last else 0,
    )


def recorded_mode(hello: HelloAnswer) -> Mode:
    """Return the mode to begin with: the config's, and where that is `auto` what fits the model's answers so far."""
    asked, last = hello.options.agent.mode, hello.state.prompt
    return asked if asked != "auto" else last.mode if last else "tools"


def playbook_text(bullets: Iterable[Mapping[str, Any]]) -> str:
    """Return the playbook of `hello` as a model reads it, section by section; "" for none."""
    return render(Bullet.from_dict(bullet) for bullet in bullets)


def _probes(state: HelloState) -> dict[str, SentProbe]:
    """Return the probes; none is current that a later call of the transcript may have changed."""
    calls = (e for e in state.transcript if isinstance(e, Call) and e.result != "blocked")
    last = max((call.seq for call in calls if call.changed is not False), default=0)
    return {
        name: probe.model_copy(update={"current": probe.current and probe.after >= last})
        for name, probe in state.probes.items()
    }


def _untried(state: HelloState) -> tuple[str, ...]:
    """Return a line for each pending subtask that a required replan may replace; most were never tried."""
    replaceable = state.replaceable if state.replan_required in ("task", "goal") else ()
    return tuple(
        one.description + (" (begun before)" if one.actions_total else " (not tried yet)")
        for one in replaceable
    )


def _plan(state: HelloState) -> tuple[str, ...]:
    """Return a line for each open subtask of the current task, and for the tasks after it."""
    now = state.subtask
    lines = [
        f"- {subtask.description}" + (" (now)" if subtask is now else "")
        for subtask in state.task.subtasks
        if subtask is now or subtask.open
    ]
    following = state.goal.tasks[state.current_task_idx + 1 :]
    later = [t.description for t in following if t.status in ("pending", "in_progress", "blocked")]
    lines += [f"- later: {name}" for name in later[:LATER_SHOWN]]
    more = len(later) - LATER_SHOWN
    return (*lines, *([f"- and {more} more tasks"] if more > 0 else []))
