"""The prompt of a goal, as its agent would build it now: from the ledger alone, by the same pure function."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from clew_daemon.cli.where import Where


def prompted(where: Where, goal: str) -> dict[str, Any]:
    """Give `messages`, as the LLM gets them, and `sizes` by block, in characters and estimated tokens.

    What only a live agent has in mind (its own words since it started, the token count calibrated on its
    server) is not on record, and not in here.
    """
    from clew_daemon.cli.record import opened
    from clew_daemon.hello import told
    from clew_daemon.playbook import recorded
    from clew_daemon.store import load_state
    from clew_shared.playbook.record import fold
    from clew_shared.prompt import build, describe
    from clew_shared.prompt_view import view_from

    settings = where.loaded.settings
    with opened(where) as reader:
        if reader is None:  # the goal was found, so there is a ledger
            return {"messages": [], "sizes": {}}
        state = load_state(reader, goal)
        kept = fold(event for _, event in recorded(reader))
        shown = [b.to_dict() for i in state.strategies if (b := kept.get_bullet(i))]
        agent = settings.agents.get(state.spec.agent or None)
        view = view_from(told(state, settings, agent, reader, shown))
    return {"messages": build(view), "sizes": describe(view)}
