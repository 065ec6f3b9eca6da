"""Tracebacks of Python as a model should read them: without the frames of libraries, or as one line. Pure."""

import re

from clew_shared.text.shorten import in_one_line

CODE_CHARS = 120
_FRAME = re.compile(r'^( *)File "([^"\n]*)", line (\d+).*\n((?:\1 +.*\n)*)', re.MULTILINE)
_ERROR = re.compile(r"[A-Za-z_][\w.]*(Error|Exception|Exit|Interrupt|Warning)\b.*")
_FROM_ITSELF = re.compile(
    r"ImportError: cannot import name '(\w+)' from partially initialized module '[\w.]+' \(.*circular.*\) \((.+)\)$"
)
_NO_MODULE = re.compile(r"ModuleNotFoundError: No module named '([\w.]+)'")
_IMPORT = re.compile(r"(?:from [\w.]+ )?import ([\w, ]+)$")
_LIBRARY = re.compile(r"/lib(?:64)?/python\d|/(?:site|dist)-packages/|^<frozen ")


def without_library_frames(text: str) -> str:
    """Return a text in which each run of frames in the standard library or a package is one line.

    A small model reads them again in every turn, and the fault is rarely there.
    """
    found, at, hidden = [], 0, 0
    for frame in _FRAME.finditer(text):
        between = text[at : frame.start()]
        is_library = bool(_LIBRARY.search(frame[2]))
        if hidden and (between or not is_library):
            found.append(_hidden(hidden))
            hidden = 0
        found.append(between)
        if is_library:
            hidden += 1
        else:
            found.append(frame[0])
        at = frame.end()
    return "".join([*found, _hidden(hidden) if hidden else "", text[at:]])


def located_error(text: str) -> str:
    """Return the error at the end of a text with the last line of code that led to it, "" for no error of Python.

    As in: a.py line 1, `def main()`: SyntaxError: expected ':'. Told the error alone, small models change another line.
    A module that cannot be imported from itself, or from one that does not exist, is explained: they turn such an
    import round and round.
    """
    error = text.rstrip().rpartition("\n")[2]
    if not _ERROR.fullmatch(error):
        return ""
    frames = [f for f in _FRAME.finditer(text) if f[4].strip() and not _LIBRARY.search(f[2])]
    if not frames:
        return ""
    _, file, line, code = frames[-1].groups()
    shown = in_one_line(code.strip().splitlines()[0], CODE_CHARS)
    return f"{file} line {line}, `{shown}`: {_import_advice(error, frames) or error}"


def _import_advice(error: str, frames: list[re.Match[str]]) -> str:
    """Return what to do about an import of what the file itself should define, or of what is not there; "" else."""
    file, code = frames[-1][2], frames[-1][4]
    itself, missing = _FROM_ITSELF.match(error), _NO_MODULE.match(error)
    if itself and itself[2] == file:
        return f"it imports {itself[1]} from itself. Define {itself[1]} in {file} instead of importing it."
    wanted = _imported(frames[-2][4]) if len(frames) > 1 else []
    names = ", ".join(name for name in _imported(code) if name in wanted)
    if missing and names:
        return f"there is no module {missing[1]}. Define {names} in {file} instead of importing it."
    if missing:
        module = f"{missing[1].replace('.', '/')}.py"
        return f"there is no module {missing[1]}. Write {module} if it is part of the goal, or import another one."
    return ""


def _imported(code: str) -> list[str]:
    """Return the names that a line imports."""
    found = _IMPORT.match(code.strip().partition("\n")[0])
    return re.findall(r"\w+", found[1]) if found else []


def _hidden(frames: int) -> str:
    return f"  ({frames} frame{'s' if frames > 1 else ''} of libraries)\n"
