"""Why a shell test failed, in plain words: `test ! -e old.txt` becomes "old.txt exists, and it must not". Pure.

It knows `test`, `[`, the same in `[[`, and `grep -q` with a file, as the shell traces them (`set -x`); anything else is
left to the trace. bash quotes the values in it, dash does not.
"""

import re
import shlex

from clew_shared.text.shorten import beginning, without_middle
from clew_shared.text.words import GOT, SILENT

COMMAND_CHARS, VALUE_CHARS = 200, 300

_NOTHING, _SOMETHING = "expected nothing, got {1}", "expected some text, got none"
# what it means that such a test failed, as it stands and with `!` before it: {0} is its value, {1} in quotes
_ONE_OPERAND = {
    "-e": ("{0} does not exist", "{0} exists, and it must not"),
    "-f": ("there is no file {0}", "the file {0} exists, and it must not"),
    "-d": ("there is no folder {0}", "the folder {0} exists, and it must not"),
    "-s": ("{0} is missing or empty", "{0} is not empty, and it must not"),
    "-x": ("{0} is missing, or not executable (`chmod +x`)", "{0} is executable, and it must not"),
    "-z": (_NOTHING, _SOMETHING),
    "-n": (_SOMETHING, _NOTHING),
}
_MUST = {
    "-eq": "be",
    "-ne": "not be",
    "-lt": "be less than",
    "-le": "be at most",
    "-gt": "be more than",
    "-ge": "be at least",
}
_TWO_OPERANDS = re.compile(r"(?:^|(?<=\s))(==|=|!=|-eq|-ne|-lt|-le|-gt|-ge)(?:\s|$)")
_CLOSING = {"test": "", "[": "]", "[[": "]]"}
# Options that neither invert what is found nor take a value.
_PLAIN_GREP = re.compile("-[EFGHPchilnoqrswx]+")
_COMPUTED = re.compile(r"""(?:\btest|\[\[?)\s+"?[$`]""")
_LITERAL = re.compile(r"""(?:\btest|\[\[?)\s+["']?[\w./]""")


def explanation(trace: str, command: str) -> str:
    """Return what an agent is shown of a silent failure of `command`, by its trace; "" where it is not known why."""
    failed = _failed(trace)
    words = _words(failed)
    name = words[0] if words else ""
    why = _why_grep(words, command) if name == "grep" else ""
    if name in _CLOSING and words[-1].endswith(_CLOSING[name]):
        given = words[1:-1] if _CLOSING[name] else words[1:]
        why = _why_test(given, command) or _why_test(_unquoted(failed), command)
    shown = without_middle(failed.replace("\n", "\\n"), COMMAND_CHARS)
    return f"{SILENT}{shown}\n{why}\n" if why else ""


def _failed(trace: str) -> str:
    at = ("\n" + trace).rfind("\n+ ")
    return trace[at + len("+ ") :].strip() if at >= 0 else ""


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
        case [_, "!=", right]:
            return f'it must not be "{right}"'
        case [left, operator, right] if operator in _MUST:
            return f"{left} must {_MUST[operator]} {right}"
    return ""


def _why_grep(words: list[str], command: str) -> str:
    """Return what a grep did not find in its files, or found where it must not; "" where that is not certain."""
    options = [word for word in words[1:] if word.startswith("-")]
    pattern, *files = [word for word in words[1:] if word not in options] or [""]
    before = _before(words, command) if words[:1] == ["grep"] and files else set()
    if not (before and all(map(_PLAIN_GREP.fullmatch, options))):
        return ""
    if "!" not in before:
        return f"{_shown(pattern)} was not found in {' and '.join(files)}"
    return f"{_shown(pattern)} is still in {' or '.join(files)}" if before == {"!"} else ""


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
