"""How far a conversation and a goal have come. Pure numbers of an answer to `hello` (docs/context.md, The windows)."""

from dataclasses import dataclass

from clew_shared.prompt.windows import Windows
from clew_shared.wire.hello import ContextOptions, HelloAnswer


@dataclass(frozen=True, slots=True)
class GoalProgress:
    """The goal's iterations so far, the most there may be, and the tools used, as the progress marker shows them.

    They are counted over all attempts, plans and workers, so that they never go down.
    """

    iteration: int = 0
    max_iterations: int = 30
    tools_used: int = 0


def progress_of(hello: HelloAnswer, *, iteration: int, actions: int) -> GoalProgress:
    """Return the goal's progress, given its iterations and actions so far."""
    limit = hello.spec.max_iterations or hello.options.context.max_iterations
    return GoalProgress(iteration, hello.state.iterations_granted + limit, actions)


def conversation_turn(hello: HelloAnswer, *, iteration: int) -> int:
    """Return the turn of the present conversation, counted from 0, given the goal's iterations so far.

    A conversation begins with each subtask, and with each attempt at it.
    """
    return max(iteration - hello.attempt.from_iteration, 0)


def windows_of(context: ContextOptions) -> Windows:
    """Return the windows that the configuration sets."""
    return Windows(
        full_until=context.full_until,
        moderate_until=context.moderate_until,
        aggressive_until=context.aggressive_until,
        progress_from=context.progress_from,
        emergency_results=context.recent_actions,
    )
