"""How far a conversation has come, and how far it may go: by the goal's iterations, or by those of its attempt.

Pure numbers of an answer to `hello` (docs/attempts.md). How far the goal has come is counted over all its attempts,
plans and workers, so that it never goes down.
"""

from dataclasses import dataclass

from clew_shared.prompt.windows import Windows
from clew_shared.wire.hello import ContextOptions, HelloAnswer


@dataclass(frozen=True, slots=True)
class Pace:
    """The iteration of the present conversation, counted from 0, the most there may be, and the context windows."""

    iteration: int
    max_iterations: int
    windows: Windows


@dataclass(frozen=True, slots=True)
class GoalProgress:
    """The goal's iterations so far, the most there may be, and the tools used, as the progress marker shows them."""

    iteration: int = 0
    max_iterations: int = 30
    tools_used: int = 0


def progress_of(hello: HelloAnswer, *, iteration: int, actions: int) -> GoalProgress:
    """Return the goal's progress, given its iterations and actions so far."""
    limit = hello.spec.max_iterations or hello.options.context.max_iterations
    return GoalProgress(iteration, hello.state.iterations_granted + limit, actions)


def pace_of(hello: HelloAnswer, *, iteration: int) -> Pace:
    """Return the pace of the present conversation, given the goal's iterations so far.

    Where a subtask gets several attempts, all is counted from the present one's start. It may take the turns of an
    attempt, or those that the goal had left by then.
    """
    state, context, present = hello.state, hello.options.context, hello.attempt
    own_limit = hello.spec.max_iterations
    goal_limit, windows = own_limit or context.max_iterations, _configured(context)
    if present.iterations is None:
        if own_limit:
            windows = windows.scaled(own_limit, context.max_iterations)
        return Pace(iteration - state.iterations_granted, goal_limit, windows)
    used = max(present.from_iteration - state.iterations_granted, 0)
    limit = max(min(present.iterations, goal_limit - used), 1)
    return Pace(
        iteration - present.from_iteration,
        limit,
        windows.scaled(limit, present.iterations),
    )


def _configured(context: ContextOptions) -> Windows:
    return Windows(
        full_until=context.full_until,
        moderate_until=context.moderate_until,
        aggressive_until=context.aggressive_until,
        progress_from=context.progress_from,
        emergency_results=context.recent_actions,
    )
