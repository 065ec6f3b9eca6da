"""Goal files: bytes in, a goal or all its errors out (docs/goal-files.md).

`parse` is pure: no clock is read, the config's agents come in as names, and the caller says where a workspace is (by
`located`). Whatever the bytes are, it returns a goal or raises GoalFileError, in bounded time.
"""

import os
import re
import unicodedata
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from itertools import count
from pathlib import Path

from clew_daemon.inbox.goalfile import front as goalfile_front
from clew_daemon.inbox.goalfile.body import Body
from clew_daemon.inbox.goalfile.keys import GoalFile, GoalFileError, GoalFileFault
from clew_shared.config.places import Places, default_places, expanded
from clew_shared.record.spec import PlannedTask
from clew_shared.text.plain import plain, recordable

BYTES_MAX = 1024 * 1024
SLUG_CHARS_MAX = 40
SLUG_WORDS = 3

FILLERS = (
    " a an the and or of to in into on at by for from with without that this it its is are be "
    "as so then please my our your i we you they where when which what how who about "
)
"""Words that say nothing in an id."""


def parse(
    raw: bytes, name: str, agents: Collection[str], *, located: Callable[[str], Path] | None = None
) -> GoalFile:
    """Read a goal file; `name` is what errors call it, `agents` what `agent:` may be.

    `located` gives the folder that a `workspace:` means, or raises ValueError with the reason why no goal may work
    there. Raises GoalFileError, and nothing else, with all errors at once.
    """
    try:
        front, body_text, body_line = goalfile_front.split(decoded(raw))
    except GoalFileFault as fault:
        raise GoalFileError(name, [fault]) from None
    head = goalfile_front.Front(front or "", agents)
    body = Body(body_text, body_line)
    faults = [*head.faults, *body.faults]
    if body.without_check and not head.values.get("checks"):
        faults.append(body.without_check)
    if alike := goalfile_front.lookalike(body_text, body_line):
        faults.append(alike)
    if not body_text.strip():
        empty = "the file has no goal: write below the front matter what to do"
        faults.append(GoalFileFault(None, empty))
    if located and "workspace" in head.values:
        try:
            head.values["folder"] = located(head.values["workspace"])
        except ValueError as error:
            faults.append(GoalFileFault(head.lines["workspace"], f"`workspace` {error}"))
    if faults:
        raise GoalFileError(name, faults)
    checks = head.values.setdefault("checks", {})
    for command in dict.fromkeys(body.commands):  # done_1, done_2, … where these are free
        free = (f"done_{number}" for number in count(1) if f"done_{number}" not in checks)
        checks[next(free)] = command
    return GoalFile(
        description=body.description,
        notes=body.notes,
        done_when=body.done_when,
        tasks=tuple(body.tasks),
        lines=head.lines,
        unknown_keys=head.unknown_keys,
        **head.values,
    )


def tasks_of(raw: bytes) -> tuple[PlannedTask, ...]:
    """Return only the tasks of a goal file that was accepted before, whatever its front matter names today."""
    text = re.sub(r"\r\n?", "\n", raw.decode("utf-8-sig", "replace"))
    _, body, line = goalfile_front.split(text)
    return tuple(Body(body, line).tasks)


def goal_id(description: str, token: str, name: str = "") -> str:
    """Return a readable id: the goal's name, or the first words of its description; and the hex digits of `token`.

    `create-mathx-package-7f3a`; always `[a-z0-9-]+`, and `goal-7f3a` where no word is ASCII.
    """
    slug = re.sub(r"[^a-z0-9]+", "-", name).strip("-")
    if not slug:
        ascii_text = unicodedata.normalize("NFKD", description[:1000]).encode("ascii", "ignore")
        words = re.findall(r"[a-z0-9]+", ascii_text.decode().lower())
        telling = [word for word in words if f" {word} " not in FILLERS] or words
        slug = "-".join(telling[:SLUG_WORDS])[:SLUG_CHARS_MAX].rstrip("-") or "goal"
    return f"{slug}-{token}"


def decoded(raw: bytes) -> str:
    """Return the text, with Unix line ends and without a byte order mark; GoalFileFault where it is none."""
    if len(raw) > BYTES_MAX:
        message = f"the file is too long; a goal file may have at most {BYTES_MAX:,} bytes"
        raise GoalFileFault(None, message)
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        message = f"the file is not UTF-8 (at byte {error.start:,}): save it as UTF-8"
        raise GoalFileFault(raw.count(b"\n", 0, error.start) + 1, message) from None
    before, nul, _ = text.partition("\0")
    if nul:
        message = "the file contains a NUL byte: it is not text"
        raise GoalFileFault(before.count("\n") + 1, message)
    if not text.strip():
        raise GoalFileFault(None, "the file is empty: write what to do")
    return re.sub(r"\r\n?", "\n", text)


# -- where a goal may work: the folder that a `workspace:` means, with its links resolved, unless it is clew's own

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
