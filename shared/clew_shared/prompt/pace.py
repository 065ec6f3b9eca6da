"""How far a conversation has come, and how far it may go: by the goal's iterations, or by those of its attempt.

Pure numbers of an answer to `hello` (docs/attempts.md).
"""

from dataclasses import dataclass

from clew_shared.prompt.windows import Windows
from clew_shared.wire.hello import ContextOptions, HelloAnswer


@dataclass(frozen=True, slots=True)
class Pace:
    """The present iteration, counted from 0, the most there may be, the tools used so far, and the context windows."""

    iteration: int
    max_iterations: int
    tools_used: int
    windows: Windows


def pace_of(hello: HelloAnswer, *, iteration: int, actions: int) -> Pace:
    """Return the pace, given the goal's iterations and actions so far.

    Where a subtask gets several attempts, all is counted from the present one's start. It may take the turns of an
    attempt, or those that the goal had left by then.
    """
    state, context, present = hello.state, hello.options.context, hello.attempt
    own_limit = hello.spec.max_iterations
    goal_limit, windows = own_limit or context.max_iterations, _configured(context)
    if present.iterations is None:
        if own_limit:
            windows = windows.scaled(own_limit, context.max_iterations)
        return Pace(iteration - state.iterations_granted, goal_limit, actions, windows)
    used = max(present.from_iteration - state.iterations_granted, 0)
    limit = max(min(present.iterations, goal_limit - used), 1)
    actions_before = state.actions_total - state.subtask.actions_total + present.from_actions
    return Pace(
        iteration - present.from_iteration,
        limit,
        actions - actions_before,
        windows.scaled(limit, present.iterations),
    )


def _configured(context: ContextOptions) -> Windows:
    return Windows(
        full_until=context.full_until,
        moderate_until=context.moderate_until,
        aggressive_until=context.aggressive_until,
        progress_from=context.progress_from,
    )
