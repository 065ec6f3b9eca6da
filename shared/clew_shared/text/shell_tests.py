"""Why a shell test failed, in plain words: `test ! -e old.txt` becomes "old.txt exists, and it must not".

Pure: from the trace of the shell (`set -x`) and the command that was traced. It knows `test` (POSIX, test(1)), `[`,
the same operators in `[[`, and `grep -q` with a file; anything else is left to the trace itself. bash quotes the values
in its trace, dash does not.
"""

import re
import shlex
from collections.abc import Sequence
from typing import Final, NamedTuple

from clew_shared.text.shorten import beginning, without_middle

VALUE_CHARS = 300
SILENT = "It printed nothing. This command failed:\n+ "
GOT = "got "
"""Begins the reason where a value that was computed is not the expected one."""

_NOTHING, _SOMETHING = "expected nothing, got {1}", "expected some text, got none"
_ONE_OPERAND = {
    "-e": ("{0} does not exist", "{0} exists, and it must not"),
    "-f": ("there is no file {0}", "the file {0} exists, and it must not"),
    "-d": ("there is no folder {0}", "the folder {0} exists, and it must not"),
    "-s": ("{0} is missing or empty", "{0} is not empty, and it must not"),
    "-x": ("{0} is not an executable file", "{0} is executable, and it must not"),
    "-z": (_NOTHING, _SOMETHING),
    "-n": (_SOMETHING, _NOTHING),
}
"""What it means that such a test failed, as it stands and with `!` before it: {0} is its value, {1} in quotes."""

_COMPARED = {
    "!=": 'it must not be "{1}"',
    "-eq": "{0} must be {1}",
    "-ne": "{0} must not be {1}",
    "-lt": "{0} must be less than {1}",
    "-le": "{0} must be at most {1}",
    "-gt": "{0} must be more than {1}",
    "-ge": "{0} must be at least {1}",
}
_TWO_OPERANDS = re.compile(r"(?:^|(?<=\s))(==|=|!=|-eq|-ne|-lt|-le|-gt|-ge)(?:\s|$)")
_CLOSING = {"test": "", "[": "]", "[[": "]]"}
_PLAIN_GREP = re.compile("-[EFGHPchilnoqrswx]+")
"""Options that neither invert what is found nor take a value."""

_HIDING: Final = str.maketrans("", "", "Lchloq")
"""Those of them that hide the lines, or a part of them."""

LINES_SHOWN = 5

_COMPUTED = re.compile(r"""(?:\btest|\[\[?)\s+"?[$`]""")
_LITERAL = re.compile(r"""(?:\btest|\[\[?)\s+["']?[\w./]""")


def failed_command(trace: str) -> str:
    """Return the last command of a trace as the shell shows it, "" for none; its values may have several lines."""
    at = ("\n" + trace).rfind("\n+ ")
    return trace[at + len("+ ") :].strip() if at >= 0 else ""


def why_failed(trace: str, command: str, seen: Sequence[str] = ()) -> str:
    """Return why the last command of a trace failed, "" where that is not known; `command` is what was traced.

    `seen` are the lines that `closer_look` showed.
    """
    failed = failed_command(trace)
    words = _words(failed)
    name = words[0] if words else ""
    if found := _plain_grep(words, command):
        return _why_grep(found, seen)
    if name not in _CLOSING or not words[-1].endswith(_CLOSING[name]):
        return ""
    given = words[1:-1] if _CLOSING[name] else words[1:]
    return _why_test(given, command) or _why_test(_unquoted(failed), command)


def closer_look(trace: str, command: str) -> str:
    """Return a command that shows more than the trace of what failed, "" for none.

    It shows the lines that a `! grep` must not find, and of a file that is not executable, whether it exists.
    """
    words = _words(failed_command(trace))
    if "\n+ cd " in f"\n{trace}":  # its names are of another folder
        return ""
    if words[:2] in (["test", "-x"], ["[", "-x"]) and len(words) > 2:
        there = f"it exists; chmod +x {words[2]} makes it executable"
        return f"test -e {shlex.quote(words[2])} && echo {shlex.quote(there)}"
    found = _plain_grep(words, command)
    if not found or not found.unwanted:
        return ""
    options = (word.translate(_HIDING) for word in words[1:] if word.startswith("-"))
    grep = ["grep", "-Hn", *(one for one in options if one != "-"), "--", found.pattern]
    return f"{shlex.join([*grep, *found.files])} | head -n {LINES_SHOWN}"


def explanation(trace: str, command: str, seen: str, command_chars: int) -> str:
    """Return what an agent is shown of a check that failed and printed nothing, "" where it is not known why.

    `seen` is what `closer_look` showed.
    """
    lines = [beginning(line, VALUE_CHARS) for line in seen.strip().splitlines()[:LINES_SHOWN]]
    why = why_failed(trace, command, lines)
    if why and lines:
        why = f"{why}: {' | '.join(lines)}"
    failed = without_middle(failed_command(trace).replace("\n", "\\n"), command_chars)
    return f"{SILENT}{failed}\n{why}\n" if why else ""


def said_why(output: str) -> str:
    """Return the reason in the output of a failed check: all of it, or only the reason of an explanation."""
    if not output.startswith(SILENT):
        return output
    return output.removeprefix(SILENT).strip().partition("\n")[2]


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:  # cut off, or quoted in a way of its own, such as $'...'
        return []


def _unquoted(failed: str) -> list[str]:
    """Return the words of a test as dash shows it: without the quotes around values with spaces."""
    if "'" in failed:
        return []
    name, _, rest = failed.partition(" ")
    rest = rest.removesuffix(_CLOSING.get(name, "")).removesuffix(" ")
    negated = ["!"] * rest.startswith("! ")
    operator, _, value = rest.removeprefix("! ").partition(" ")
    if operator in _ONE_OPERAND:
        return [*negated, operator, value]
    parts = _TWO_OPERANDS.split(rest.removeprefix("! "))
    return [*negated, parts[0].removesuffix(" "), *parts[1:]] if len(parts) == 3 else []


def _why_test(words: list[str], command: str) -> str:
    match words:
        case [*negated, operator, value] if operator in _ONE_OPERAND and negated in ([], ["!"]):
            return _ONE_OPERAND[operator][bool(negated)].format(value, _shown(value))
        case [left, "=" | "==", right]:
            if _COMPUTED.search(command) and not _LITERAL.search(command):
                return f"{GOT}{_shown(left)}, expected {_shown(right)}"
            return f"{_shown(left)} is not {_shown(right)}"
        case [left, operator, right]:
            return _COMPARED.get(operator, "").format(left, right)
    return ""


class _Grep(NamedTuple):
    """A grep that looks in files, with options that change neither; `unwanted`: it must not find anything."""

    pattern: str
    files: list[str]
    unwanted: bool


def _plain_grep(words: list[str], command: str) -> _Grep | None:
    """Return what a grep looks for; None where that, or whether it must be found, is not certain."""
    if words[:1] != ["grep"]:
        return None
    operands = [word for word in words[1:] if not word.startswith("-")]
    options = [word for word in words[1:] if word.startswith("-")]
    before = _before(words, command)
    unwanted = "!" in before
    certain = len(before) == 1 if unwanted else bool(before)
    if len(operands) < 2 or not certain or not all(map(_PLAIN_GREP.fullmatch, options)):
        return None
    return _Grep(operands[0], operands[1:], unwanted)


def _why_grep(found: _Grep, seen: Sequence[str]) -> str:
    """Return what grep did not find, or found: the latter is a failure where the command has a `!` before it."""
    if found.unwanted:
        there = [name for name in found.files if any(line.startswith(f"{name}:") for line in seen)]
        where = " and ".join(there) or " or ".join(found.files)
        return f"{_shown(found.pattern)} is still in {where}"
    return f"{_shown(found.pattern)} was not found in {' and '.join(found.files)}"


def _before(words: list[str], command: str) -> set[str]:
    """Return the words of a command, each before one of the places where these stand; "" is its beginning."""
    lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    try:
        tokens = ["", *lexer]
    except ValueError:
        return set()
    size = len(words)
    return {tokens[at - 1] for at in range(1, len(tokens)) if tokens[at : at + size] == words}


def _shown(value: str) -> str:
    return '"' + beginning(value, VALUE_CHARS).replace("\n", "\\n") + '"'
