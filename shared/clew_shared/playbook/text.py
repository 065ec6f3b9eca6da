"""The playbook as text: what a prompt shows."""

from collections.abc import Iterable

from clew_shared.playbook.bullet import Bullet, section_key
from clew_shared.playbook.curator import conflicts

TITLE = "## Learned Strategies"


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


def _lines(bullet: Bullet, against: list[str]) -> list[str]:
    counts = f"(helpful={bullet.helpful}, harmful={bullet.harmful})"
    lines = [f"- [{bullet.id}] {bullet.content} {counts}"]
    if against:
        others = ", ".join(f"[{other}]" for other in against)
        lines.append(f"  conflict: {others} says the opposite")
    return lines
