"""Screens of a terminal as an SVG picture: one, or several that follow each other as a recording."""

import re
from collections import Counter
from dataclasses import dataclass
from xml.sax.saxutils import escape

from rich.ansi import AnsiDecoder
from rich.color import Color
from rich.style import Style

CHAR, LINE, FONT, MARGIN = 7.83, 18, 13, 14
BACKGROUND, FOREGROUND = "#121212", "#e0e0e0"
STYLE = (
    f'text{{font:{FONT}px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;'
    f"white-space:pre;fill:{FOREGROUND}}}"
)


@dataclass(frozen=True)
class Frame:
    """What a terminal showed, with its sequences, for some seconds."""

    screen: str
    seconds: float


def still(frame, title, columns, rows):
    """Draw one screen."""
    return _document([_frame(frame.screen)], "", title, columns, rows)


def recording(frames, title, columns, rows):
    """Draw screens that follow each other, again and again; where motion is not wanted, the last one."""
    drawn = [f'<g class="f" id="f{n}">{_frame(one.screen)}</g>' for n, one in enumerate(frames)]
    return _document(drawn, _animation(frames), title, columns, rows)


def _animation(frames):
    whole, began, rules = sum(one.seconds for one in frames), 0.0, []
    for n, one in enumerate(frames):
        start, end = 100 * began / whole, 100 * (began + one.seconds) / whole
        before = "0%{visibility:hidden}" if n else ""
        rules.append(
            f"@keyframes k{n}{{{before}{start:.2f}%{{visibility:visible}}{end:.2f}%{{visibility:hidden}}}}"
            f"#f{n}{{animation:k{n} {whole:.1f}s step-end infinite}}"
        )
        began += one.seconds
    return (
        ".f{visibility:hidden}.f:last-of-type{visibility:visible}"
        f"@media (prefers-reduced-motion:no-preference){{{''.join(rules)}}}"
    )


def _document(drawn, animation, title, columns, rows):
    width, height = round(columns * CHAR + 2 * MARGIN), rows * LINE + 2 * MARGIN
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" role="img" aria-label="{escape(title)}">\n<title>{escape(title)}</title>\n'
        f'<style>{STYLE}{animation}</style>\n<rect width="{width}" height="{height}" rx="8" fill="{BACKGROUND}"/>\n'
    )
    return head + "\n".join(drawn) + "\n</svg>\n"


def _frame(screen):
    rows = [_runs(line) for line in AnsiDecoder().decode(screen.removesuffix("\n"))]
    common = Counter(back for row in rows for _, text, _, back in row for _ in text)
    usual = common.most_common(1)[0][0] if common else BACKGROUND
    width = max((column + len(text) for row in rows for column, text, *_ in row), default=0)
    size = f'width="{width * CHAR:.1f}" height="{len(rows) * LINE}"'
    whole = f'<rect x="{MARGIN}" y="{MARGIN}" {size} fill="{usual}"/>' * (usual != BACKGROUND)
    return whole + "".join(_row(n, row, usual) for n, row in enumerate(rows))


def _runs(line):
    """Give the parts of a line that look the same: column, text, style, background."""
    found, plain = [], line.plain
    styles = [Style()] * len(plain)
    for span in line.spans:
        for at in range(span.start, min(span.end, len(plain))):
            styles[at] += span.style if isinstance(span.style, Style) else Style.parse(span.style)
    for at, (char, style) in enumerate(zip(plain, styles, strict=True)):
        if found and found[-1][2] == style:
            found[-1][1] += char
        else:
            found.append([at, char, style, _colours(style)[1]])
    return found


def _colours(style):
    fore, back = _hex(style.color, FOREGROUND), _hex(style.bgcolor, BACKGROUND)
    return (back, fore) if style.reverse else (fore, back)


def _hex(colour, default):
    if colour is None or colour == Color.default():
        return default
    return colour.get_truecolor().hex


def _row(number, runs, usual):
    top = MARGIN + number * LINE
    rects, texts = [], []
    for column, text, style, back in runs:
        if back != usual:
            rects.append(
                f'<rect x="{_x(column)}" y="{top}" width="{len(text) * CHAR:.1f}" height="{LINE}" fill="{back}"/>'
            )
        texts += [_text(column + at, part, style) for at, part in _words(text)]
    line = f'<text y="{top + FONT}">{"".join(texts)}</text>' if texts else ""
    return "".join(rects) + line


def _words(text):
    """Split a text where it has two spaces, so that columns stay where they are with every font."""
    return [(found.start(), found[0]) for found in re.finditer(r"\S+(?: \S+)*", text)]


def _text(column, text, style):
    fore, _ = _colours(style)
    places = _x(column) if text.isascii() else " ".join(_x(column + n) for n in range(len(text)))
    look = "" if fore == FOREGROUND else f' fill="{fore}"'
    look += ' font-weight="bold"' if style.bold else ""
    look += ' opacity=".6"' if style.dim else ""
    return f'<tspan x="{places}"{look}>{escape(text)}</tspan>'


def _x(column):
    return f"{MARGIN + column * CHAR:.1f}"
