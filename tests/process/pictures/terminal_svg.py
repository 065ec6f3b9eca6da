"""Screens of a terminal as an SVG picture: one, or several that follow each other as a recording."""

import io
from dataclasses import dataclass
from xml.sax.saxutils import escape

from rich.console import Console
from rich.terminal_theme import SVG_EXPORT_THEME
from rich.text import Text

CHAR, LINE, MARGIN, SCALE = 12.2, 24.4, 14, 0.64
"""How large the cells are that rich draws, and how much smaller they are shown."""
PARTS = "{styles}\0<g>{backgrounds}<g class='{unique_id}-matrix'>{matrix}</g></g>\0{lines}"
STYLE = 'text{font:20px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;white-space:pre}'


@dataclass(frozen=True)
class Frame:
    """What a terminal showed, with its sequences, for some seconds."""

    screen: str
    seconds: float


def picture(frames, title, columns, rows):
    """Draw a screen, or screens that follow each other again and again; without motion, the last one."""
    width, height = round(columns * CHAR + 2 * MARGIN), round(rows * LINE + 2 * MARGIN)
    styles, drawn, clips = zip(
        *(_drawn(one.screen, columns, f"f{n}") for n, one in enumerate(frames)), strict=True
    )
    whole, began, rules = sum(one.seconds for one in frames), 0.0, []
    for n, one in enumerate(frames):
        start, end = 100 * began / whole, 100 * (began + one.seconds) / whole
        before = "0%{visibility:hidden}" if n else ""
        rules.append(
            f"@keyframes k{n}{{{before}{start:.2f}%{{visibility:visible}}{end:.2f}%{{visibility:hidden}}}}"
            f"#f{n}{{animation:k{n} {whole:.1f}s step-end infinite}}"
        )
        began += one.seconds
    motion = (
        ".f{visibility:hidden}.f:last-of-type{visibility:visible}"
        f"@media (prefers-reduced-motion:no-preference){{{''.join(rules)}}}"
    )
    style = STYLE + "".join(styles) + motion * (len(frames) > 1)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width * SCALE:.0f}" '
        f'height="{height * SCALE:.0f}" role="img" aria-label="{escape(title)}">\n<title>{escape(title)}</title>\n'
        f"<style>{style}</style>\n<defs>{''.join(clips)}</defs>\n"
        f'<rect width="{width}" height="{height}" rx="8" fill="#121212"/>\n'
        f'<g transform="translate({MARGIN},{MARGIN})">\n'
        + "\n".join(f'<g class="f" id="f{n}">{one}</g>' for n, one in enumerate(drawn))
        + "\n</g>\n</svg>\n"
    )


def _drawn(screen, columns, name):
    """Give the rules, the drawing and the clip paths of a screen, as rich draws it."""
    console = Console(record=True, width=columns, file=io.StringIO())
    console.print(Text.from_ansi(screen.removesuffix("\n")), no_wrap=True, crop=True)
    svg = console.export_svg(theme=SVG_EXPORT_THEME, code_format=PARTS, unique_id=name)
    return svg.split("\0")
