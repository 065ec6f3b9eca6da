"""The playbook as text: what a prompt shows, and what a person can edit and import.

One format for both, so that an export is what an agent sees.
"""

import re
from collections.abc import Iterable

from clew_shared.playbook.bullet import Bullet, section_key
from clew_shared.playbook.curator import conflicts
from clew_shared.text.shorten import one_line

TITLE = "## Learned Strategies"
_SECTION = re.compile(r"###\s+(?P<name>\S.*?)\s*$")
_LINE = re.compile(
    r"[-*]\s+(?:\[(?P<id>[^\]\s]+)\]\s+)?(?P<content>\S.*?)"
    r"(?:\s+\(helpful=(?P<helpful>\d{1,9}), harmful=(?P<harmful>\d{1,9})\))?\s*$"
)
_CONFLICT = re.compile(r"\s+conflict: .* says? the opposite\s*$")


def render(bullets: Iterable[Bullet]) -> str:
    """Return the text of bullets by section, in the order given, with a note below contradicting ones."""
    shown = list(bullets)
    if not shown:
        return ""
    against: dict[str, list[str]] = {}
    for one, other in conflicts([bullet.content for bullet in shown]):
        against.setdefault(shown[one].id, []).append(shown[other].id)
        against.setdefault(shown[other].id, []).append(shown[one].id)
    sections: dict[str, list[str]] = {}
    for bullet in shown:
        lines = sections.setdefault(section_key(bullet.section), [])
        lines += _lines(bullet, against.get(bullet.id, []))
    blocks = ["\n".join([f"### {name.title()}", *lines]) for name, lines in sections.items()]
    return "\n\n".join([TITLE, *blocks])


def read(text: str) -> list[Bullet]:
    """Parse the text; ids (then "") and counts may be absent. ValueError names a line that does not parse."""
    found: list[Bullet] = []
    section = ""
    for number, line in enumerate(text.splitlines(), start=1):
        if named := _SECTION.match(line):
            section = named["name"]
        elif line.strip() and not line.startswith(("# ", "## ")) and not _CONFLICT.match(line):
            found.append(_bullet(line, number, section))
    return found


def _lines(bullet: Bullet, against: list[str]) -> list[str]:
    counts = f"(helpful={bullet.helpful}, harmful={bullet.harmful})"
    lines = [f"- [{bullet.id}] {bullet.content} {counts}"]
    if against:
        others = ", ".join(f"[{other}]" for other in against)
        lines.append(f"  conflict: {others} says the opposite")
    return lines


def _bullet(line: str, number: int, section: str) -> Bullet:
    fields = _LINE.match(line)
    if fields is None:
        raise ValueError(f"line {number} is not a strategy: {line[:80]!r}; write `- what to do`")
    if not section:
        raise ValueError(f"line {number} is not in a section; write `### Section` before it")
    helpful, harmful = (int(fields[name] or 0) for name in ("helpful", "harmful"))
    content = one_line(fields["content"])
    return Bullet(fields["id"] or "", section, content, helpful, harmful)
