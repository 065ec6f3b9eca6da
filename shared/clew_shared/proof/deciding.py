"""Whose exit code decides a check, by an approximation of the shell's grammar. Pure."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_INTERPRETER = re.compile(
    r"(?:.*/)?(?:sh|bash|dash|zsh|python[\d.]*|node|ruby|perl|php|deno|bun|tsx|ts-node)"
)
_WRAPPERS = frozenset(
    ["env", "time", "nice", "exec", "command", "timeout", "stdbuf", "nohup", "xvfb-run", "!"]
)
_WITH_VALUE = frozenset(["-W", "-X", "-r", "--require", "-n"])
_IS_CODE = frozenset(["-c", "-e", "--eval", "-p"])
_PREFIX = re.compile(r"\w+=.*|\d+(?:\.\d+)?[smhd]?")


def deciding(cmd: str) -> list[str]:
    """Return the paths of the programs and scripts whose own exit code can make a check pass."""
    try:
        lexer = shlex.shlex(cmd.replace("\n", " ; "), posix=True, punctuation_chars="|&;()<>")
        lexer.whitespace_split, lexer.commenters = True, ""
        words = list(lexer)
    except ValueError:
        return []
    found, folder, now = [], "", list[str]()
    for word in [*words, ";"]:
        if set(word) - set("|&;()"):
            now.append(word)
            continue
        if now[:1] == ["cd"] and len(now) == 2:
            folder = f"{folder}/{now[1]}".strip("/")
        elif word != "|" and (path := _program(now)):  # of a pipe the last one decides
            found.append(f"{folder}/{path}".strip("/"))
        now = []
    return found


def _program(words: list[str]) -> str:
    """Return the script that a command runs, or its program, "" for none of its own."""
    while words and (words[0] in _WRAPPERS or _PREFIX.fullmatch(words[0])):
        words = words[1:]
    if not words or words[0] in ("[", "test"):
        return ""
    program, *rest = words
    if not _INTERPRETER.fullmatch(program):
        return program.removeprefix("./")
    args = iter(rest)
    for arg in args:
        if arg == "-m":
            return next(args, "").replace(".", "/")
        if arg in _IS_CODE:
            return ""
        if arg in _WITH_VALUE:
            next(args, "")
        elif not arg.startswith("-") and arg not in ("run", "test"):
            return arg.removeprefix("./")
    return ""


def decided_by(checks: Iterable[str], changed: Iterable[str]) -> list[str]:
    """Return those of the changed files whose own exit code decides one of the checks."""
    words = {word for cmd in checks for word in deciding(cmd)}
    paths = {form for word in words for form in (word, f"{word}.py", f"{word}/__main__.py")}
    names = {word for word in words if "/" not in word}  # found along PATH
    return sorted(one for one in set(changed) if one in paths or one.rpartition("/")[2] in names)
