"""The colours of a terminal as `clew top` shows them, in dark and light: refused looks different from failed."""

from __future__ import annotations

from rich.terminal_theme import TerminalTheme

_DARK = [
    (84, 93, 104),
    (244, 112, 103),
    (87, 171, 90),
    (218, 170, 63),
    (83, 155, 245),
    (176, 131, 240),
    (57, 197, 207),
    (205, 217, 229),
]
_LIGHT = [
    (36, 41, 47),
    (207, 34, 46),
    (26, 127, 55),
    (154, 103, 0),
    (9, 105, 218),
    (130, 80, 223),
    (27, 124, 131),
    (110, 119, 129),
]
"""Black, red, green, yellow, blue, magenta, cyan, white."""

DARK = TerminalTheme((18, 18, 18), (224, 224, 224), _DARK)
LIGHT = TerminalTheme((255, 255, 255), (36, 41, 47), _LIGHT)
