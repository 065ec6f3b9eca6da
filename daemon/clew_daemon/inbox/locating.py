"""Where a goal may work: the folder that a `workspace:` means, with its links resolved, unless it is clew's own."""

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from clew_shared.config.places import Places, default_places, expanded
from clew_shared.text.plain import plain, recordable

SYSTEM_FOLDERS = ("/proc", "/sys", "/dev")
"""What is there is not on a disk, and an action sees something else there than the daemon."""


def located(workspace: str, places: Places, env: Mapping[str, str]) -> Path:
    """Return the folder that the text of a `workspace:` means, on whatever disk that is.

    ValueError where no goal may work there: in or around the folders of this home or of the default one.
    """
    try:
        folder = expanded(workspace, env).resolve()
    except (OSError, RuntimeError) as error:  # a ring of links
        reason = f"{workspace} cannot be resolved ({plain(error)}): choose another folder"
        raise ValueError(reason) from None
    shown = recordable(str(folder))
    if str(folder) != shown:  # by HOME, or by a link
        raise ValueError(f"{shown} has bytes that are not UTF-8: choose another folder")
    other = default_places(env) if places.home is not None else None
    if fault := workspace_fault(folder, _resolved(places), other and _resolved(other)):
        raise ValueError(fault)
    return folder


def _resolved(places: Places) -> Places:
    """Return the places with their links resolved, as far as that can be done."""
    named = {"config": places.config, **places.folders}
    return replace(places, **{name: Path(os.path.realpath(one)) for name, one in named.items()})


def workspace_fault(workspace: Path, places: Places, other: Places | None = None) -> str | None:
    """Return why a goal may not work there, or None; all paths absolute and links resolved.

    Refused: `/`, the kernel's folders, clew's own folders and what is in them, and every folder that holds one of them;
    those of `other`, the default home's, as well. Allowed: what is in `workspaces`.
    """
    wanted = Path(os.path.normpath(workspace))
    if wanted == Path("/") or not wanted.is_absolute():
        return f"must be the absolute path of a folder below /, not {workspace}"
    for folder in SYSTEM_FOLDERS:
        if wanted.is_relative_to(folder):
            return f"{workspace} is inside {folder}, where no goal can work: choose another folder"
    for own in filter(None, (places, other)):
        configs = [own.config] if own.home else [own.config, own.config.parent]
        within = wanted != own.workspaces and wanted.is_relative_to(own.workspaces)
        for place in (*own.folders.values(), *configs):
            if place.is_relative_to(wanted) or (wanted.is_relative_to(place) and not within):
                return f"{workspace} is, contains or is inside clew's own {place}: choose another folder"
        if within:
            break
    return None
