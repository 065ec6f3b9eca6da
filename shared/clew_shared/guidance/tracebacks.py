"""Tracebacks of Python as a model should read them: without the frames of libraries, or as one line. Pure."""

import re

from clew_shared.text.shorten import in_one_line

CODE_CHARS = 120
_FRAME = re.compile(r'^( *)File "([^"\n]*)", line (\d+).*\n((?:\1 +.*\n)*)', re.MULTILINE)
_ERROR = re.compile(r"[A-Za-z_][\w.]*(Error|Exception|Exit|Interrupt|Warning)\b.*")
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
    """
    error = text.rstrip().rpartition("\n")[2]
    if not _ERROR.fullmatch(error):
        return ""
    frames = [f for f in _FRAME.finditer(text) if f[4].strip() and not _LIBRARY.search(f[2])]
    if not frames:
        return ""
    _, file, line, code = frames[-1].groups()
    shown = in_one_line(code.strip().splitlines()[0], CODE_CHARS)
    return f"{file} line {line}, `{shown}`: {error}"


def _hidden(frames: int) -> str:
    return f"  ({frames} frame{'s' if frames > 1 else ''} of libraries)\n"
