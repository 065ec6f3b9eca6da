"""Tracebacks of Python as a model should read them: without the frames of the libraries. Pure."""

import re

_FRAME = re.compile(r'^( *)File "([^"\n]*)", line \d+.*\n(?:\1 +.*\n)*', re.MULTILINE)
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


def _hidden(frames: int) -> str:
    return f"  ({frames} frame{'s' if frames > 1 else ''} of libraries)\n"
