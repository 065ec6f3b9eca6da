"""Where a goal may work: the folder that a `workspace:` means, with its links resolved, unless it is clew's own."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from clew_daemon.inbox.goalfile.parse import workspace_fault
from clew_shared.config.places import default_places, expanded
from clew_shared.text.plain import plain, recordable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from clew_shared.config.places import Places


def locator(places: Places, env: Mapping[str, str]) -> Callable[[str], Path]:
    """Return a function that resolves the text of a `workspace:`, on whatever disk that is.

    It raises ValueError where no goal may work there: in or around the folders of this home or of the default one.
    """

    def located(workspace: str) -> Path:
        try:
            folder = expanded(workspace, env).resolve()
        except (OSError, RuntimeError) as error:  # a ring of links
            raise ValueError(
                f"{workspace} cannot be resolved ({plain(error)}): choose another folder"
            ) from None
        check(folder, places, env)
        return folder

    return located


def check(folder: Path, places: Places, env: Mapping[str, str]) -> None:
    """Raise ValueError where no goal may work in a folder whose links are resolved."""
    shown = recordable(str(folder))
    if str(folder) != shown:  # by HOME, or by a link
        raise ValueError(f"{shown} has bytes that are not UTF-8: choose another folder")
    other = default_places(env) if places.home is not None else None
    for one in (places, _resolved(places)):
        if fault := workspace_fault(folder, one, other and _resolved(other)):
            raise ValueError(fault)


def _resolved(places: Places) -> Places:
    """Return the places with their links resolved, as far as that can be done."""
    named = {"config": places.config, **places.folders}
    return replace(places, **{name: Path(os.path.realpath(one)) for name, one in named.items()})
