"""Where a goal may work: the folder that a `workspace:` means, with its links resolved, unless it is clew's own."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from clew_shared.config.places import Places, default_places, expanded
from clew_shared.text.plain import plain, recordable

SYSTEM_FOLDERS = ("/proc", "/sys", "/dev")
"""What is there is not on a disk, and an action sees something else there than the daemon."""


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


def workspace_fault(workspace: Path, places: Places, other: Places | None = None) -> str | None:
    """Return why a goal may not work there, or None; all paths absolute and links resolved.

    Refused: `/`, the kernel's folders, clew's own folders and what is in them, and every folder that holds one of them;
    those of `other`, the default home's, as well. Allowed: what is in `workspaces`.
    """
    wanted = _normal(workspace)
    if wanted == Path("/") or not wanted.is_absolute():
        return f"must be the absolute path of a folder below /, not {workspace}"
    for folder in SYSTEM_FOLDERS:
        if wanted.is_relative_to(folder):
            return f"{workspace} is inside {folder}, where no goal can work: choose another folder"
    fault = _near_own(wanted, places)
    if not fault and other and not wanted.is_relative_to(_normal(places.workspaces)):
        fault = _near_own(wanted, other)
    return f"{workspace} {fault}" if fault else None


def _near_own(wanted: Path, places: Places) -> str:
    own = [*places.folders.values()]
    for name, folder in places.folders.items():
        if wanted == _normal(folder):
            return f"is clew's own {name} folder: choose another folder"
    for folder in map(_normal, [*own, places.config]):
        if folder.is_relative_to(wanted):
            return f"contains clew's own {folder}: choose another folder"
    if wanted.is_relative_to(_normal(places.workspaces)):
        return ""
    closed = own if places.home is not None else [*own, places.config.parent]
    for folder in map(_normal, [*closed, places.config]):
        if wanted.is_relative_to(folder):
            return f"is inside clew's own {folder}: choose a folder outside"
    return ""


def _normal(path: Path) -> Path:
    return Path(os.path.normpath(path))
