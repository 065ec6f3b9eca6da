"""The files that a playbook is exported to and imported from."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from clew_daemon.cli.errors import CliError

if TYPE_CHECKING:
    from clew_shared.playbook.bullet import Bullet

IMPORT_BYTES_MAX = 16 << 20


def write(file: Path, text: str, *, force: bool) -> None:
    """Write a file, a device or a pipe; an existing file is replaced atomically, and only with `force`."""
    if file.exists() and not file.is_file():
        file.write_text(text, encoding="utf-8")
        return
    if not force:
        try:
            with file.open("x", encoding="utf-8") as made:
                made.write(text)
        except FileExistsError:
            how = "name another file, or replace it with --force"
            raise CliError(f"{file} exists; {how}") from None
        return
    part = file.with_name(f".{file.name}.{os.getpid()}.part")
    try:
        part.write_text(text, encoding="utf-8")
        part.replace(file)
    finally:
        part.unlink(missing_ok=True)


def read(file: str) -> list[Bullet]:
    """Return the strategies of a file, or of stdin for `-`; CliError where there are none."""
    from clew_daemon.learning.exchange import imported

    if file == "-":
        raw = sys.stdin.buffer.read(IMPORT_BYTES_MAX + 1)
    else:
        with Path(file).open("rb") as opened:
            raw = opened.read(IMPORT_BYTES_MAX + 1)
    if len(raw) > IMPORT_BYTES_MAX:
        raise CliError(f"{file} is larger than {IMPORT_BYTES_MAX >> 20} MiB: not a playbook")
    try:
        bullets = imported(raw.decode("utf-8"))
    except ValueError as error:
        raise CliError(f"{file} cannot be imported: {error}") from None
    if not bullets:
        needed = "what `clew playbook export` writes, or lines `- what to do` under `### Section`"
        raise CliError(f"{file} has no strategies: it needs {needed}")
    return bullets
