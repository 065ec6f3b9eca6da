"""Checks that an agent suggests: which are accepted, and which run at the end; a suggestion decides nothing. Pure."""

from collections.abc import Iterable

from clew_shared.record.state import State

SUGGESTED_MAX = 5  # that a goal can have
NAME_CHARS_MAX = 60
CMD_CHARS_MAX = 500


def taken(state: State, proposed: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return which proposed checks (name, command) are new, as far as there is room; a known name is replaced."""
    suggested = state.proofs.suggested
    known = {*state.spec.checks.values(), *(one.cmd for one in suggested.values())}
    found: dict[str, str] = {}
    for name, cmd in proposed:
        room = name in suggested or len(suggested.keys() | found.keys()) < SUGGESTED_MAX
        if cmd in known or name in state.spec.checks or name in found or not room:
            continue
        known.add(cmd)
        found[name] = cmd
    return list(found.items())


def due(state: State) -> list[tuple[str, str]]:
    """Return the suggested checks (name, command) to run before the goal is completed.

    None if the goal has checks of its own: what a suggestion leaves in the workspace would be unchecked. One that was
    started runs again only after a person has sent the agent back to work.
    """
    if state.spec.checks:
        return []
    return [(name, one.cmd) for name, one in state.proofs.suggested.items() if not one.started]
