"""The playbook on record, and one of its strategies with its source and its history."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clew_daemon.reading.errors import CliError
from clew_daemon.reading.queries import ledger_if_any, open_ledger
from clew_daemon.reading.sanitize import clean, short

if TYPE_CHECKING:
    from collections.abc import Sequence

    from clew_daemon.reading.instance import Instance
    from clew_daemon.reading.output import Line
    from clew_shared.playbook.bullet import Bullet
    from clew_shared.playbook.playbook import LearnedPlaybook
    from clew_shared.record.events import Event

SOURCE_KEYS = ("seq", "name", "args", "result")


def _events(instance: Instance) -> list[tuple[int, Event]]:
    from clew_daemon.learning.playbook import playbook_events

    with ledger_if_any(instance) as reader:
        return [] if reader is None else list(playbook_events(reader))


def playbook_of(instance: Instance) -> LearnedPlaybook:
    """Return the playbook on record."""
    from clew_daemon.learning.deltas import fold

    return fold(event for _, event in _events(instance))


def has_words(bullet: Bullet, words: Sequence[str]) -> bool:
    """Return whether a strategy has all of these words in its id, section or content, in any case."""
    text = f"{bullet.id} {bullet.section} {bullet.content}".casefold()
    return all(word.casefold() in text for word in words)


def view_of(instance: Instance, bullet_id: str) -> dict[str, Any]:
    """Return one strategy with its history and its source."""
    from clew_daemon.learning.deltas import fold
    from clew_daemon.learning.loops import is_shown

    events = _events(instance)
    playbook = fold(event for _, event in events)
    live = playbook.get_bullet(bullet_id)
    bullet = live or next((one for one in playbook.archived() if one.id == bullet_id), None)
    if bullet is None:
        raise CliError(f"there is no strategy {bullet_id!r}; `clew playbook list` lists them")
    history = [(seq, event) for seq, event in events if getattr(event, "id", "") == bullet_id]
    pairs = [(one.id, other.id) for one, other in playbook.conflicts()]
    return {
        "bullet": bullet.to_dict(),
        "archived": live is None,
        "shown": live is not None and is_shown(bullet),
        "conflicts": [a if b == bullet_id else b for a, b in pairs if bullet_id in (a, b)],
        "source": _source(instance, history[0][1]),
        "events": [_event_view(seq, event) for seq, event in history],
    }


def _source(instance: Instance, added: Any) -> dict[str, Any]:
    """Return the goal and the actions that a strategy was learned from; of a deleted goal only their numbers."""
    from clew_daemon.record.pages import action

    with open_ledger(instance) as reader:
        found = [action(reader, added.source_goal, seq) for seq in added.actions]
    return {
        "goal": added.source_goal,
        "evidence": added.evidence,
        "action_seqs": list(added.actions),
        "actions": [{key: one[key] for key in SOURCE_KEYS} for one in found if one],
    }


def _event_view(seq: int, event: Any) -> dict[str, Any]:
    from clew_shared.record.moment import iso

    return {
        "seq": seq,
        "timestamp": iso(event.at),
        "event": event.kind.removeprefix("bullet_"),
        "tag": getattr(event, "tag", None),
        "times": getattr(event, "times", None),
        "goal": getattr(event, "source_goal", "") or None,
        "reason": getattr(event, "reason", "") or None,
    }


def strategy_lines(view: dict[str, Any]) -> list[Line]:
    """Return the lines of a strategy."""
    from clew_daemon.reading.goal_text import shown_action
    from clew_shared.playbook.bullet import SEEN_MIN
    from clew_shared.record.moment import local

    bullet, source = view["bullet"], view["source"]
    counts = ", ".join(f"{name} {bullet[name]}" for name in ("helpful", "harmful", "neutral"))
    archived = "  (archived)" if view["archived"] else ""
    lines: list[Line] = [
        [(f"{clean(bullet['id'])}{archived}", "bold"), (f"  {clean(bullet['section'])}", "dim")],
        [(f"  {clean(bullet['content'])}", "")],
        [(f"  {counts}", "")],
    ]
    if bullet.get("expires_at"):
        lines.append([(f"  expires {clean(local(bullet['expires_at']))}", "yellow")])
    lines += [[(f"  {clean(other)} says the opposite", "yellow")] for other in view["conflicts"]]
    if not view["shown"] and not view["archived"]:
        seen = f"seen in {len(bullet.get('seen_in', ()))} of {SEEN_MIN} goals whose checks passed"
        lines.append([(f"  not shown to agents yet: {seen}", "yellow")])
    if source["goal"] or source["evidence"]:
        lines.append([(f"  from {clean(source['goal']) or 'elsewhere'}", "")])
    if source["evidence"]:
        evidence = clean(source["evidence"], lines=True).splitlines()
        lines += [[(f"    {line}", "dim")] for line in evidence]
    lines += [
        [(f"    #{one['seq']} {clean(one['result'])}  {short(shown_action(one), 120)}", "dim")]
        for one in source["actions"]
    ]
    return lines + [_event_line(event) for event in view["events"]]


def _event_line(event: dict[str, Any]) -> Line:
    from clew_shared.record.moment import local

    what = f"{event['event']} {event['tag'] or ''}".strip()
    times = f" x {event['times']}" if (event["times"] or 1) > 1 else ""
    rest = ", ".join(clean(event[key]) for key in ("goal", "reason") if event[key])
    when = local(event["timestamp"])
    return [(f"  {when}  ", "dim"), (f"{what}{times}", ""), (f"  {rest}", "dim")]
