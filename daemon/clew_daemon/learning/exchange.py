"""Playbooks between homes: export and import as JSON; importing one twice changes nothing.

A known strategy takes the larger counts, because a copy cannot be distinguished from an independent find; one that was
archived here stays archived. Pure: text in, events out.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from clew_daemon.learning.deltas import BULLETS_MAX, DeltaError, Draft
from clew_shared.playbook.bullet import TAGS, Bullet, seconds
from clew_shared.playbook.playbook import LearnedPlaybook, normalized
from clew_shared.record.daemon_events import BulletAdded, BulletTagged
from clew_shared.text.redact import redact

_ID = re.compile(r"[a-z]{1,3}-\d{5,9}")


def exported(playbook: LearnedPlaybook) -> str:
    """Return all of a playbook, as the library saves it."""
    return json.dumps(playbook.to_dict(), ensure_ascii=False, indent=2) + "\n"


def imported(text: str) -> list[Bullet]:
    """Parse an export, or a JSON list of bullets; ValueError if it is wrong."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not JSON: {error}") from None
    if isinstance(data, Mapping):
        return LearnedPlaybook.from_dict(data).bullets()
    if not isinstance(data, list):
        raise ValueError("a playbook is an object or a list")  # noqa: TRY004 (what a file holds is a value)
    return [from_entry(entry) for entry in data]


def from_entry(entry: Any) -> Bullet:
    """Return the bullet of a JSON object whose id may be absent; ValueError if it is wrong."""
    if not isinstance(entry, Mapping):
        raise ValueError("a strategy must be an object")  # noqa: TRY004 (what a file holds is a value)
    bullet = Bullet.from_dict({**entry, "id": entry.get("id") or "new"})
    return replace(bullet, id=entry.get("id") or "")


def import_bullets(draft: Draft, bullets: Iterable[Bullet], at: float) -> dict[str, int]:
    """Add or update foreign bullets; return the counts of `added`, `updated` and unchanged (`known`) ones."""
    counts = {"added": 0, "updated": 0, "known": 0}
    for one in bullets:
        section, content = normalized(one.section, redact(one.content))
        counts[_import(draft, replace(one, section=section, content=content), at)] += 1
    return counts


def _import(draft: Draft, theirs: Bullet, at: float) -> str:
    playbook = draft.playbook
    mine = playbook.find(theirs.section, theirs.content)
    if mine is None and playbook.find(theirs.section, theirs.content, archived=True):
        return "known"
    if mine is None:
        draft.add(_added(playbook, theirs, at))
        return "added"
    more = {tag: getattr(theirs, tag) - getattr(mine, tag) for tag in TAGS}
    for tag in TAGS:
        if more[tag] > 0:
            event = BulletTagged(at=at, id=mine.id, tag=tag, times=more[tag], reason="imported")
            draft.add(event)
    return "updated" if any(count > 0 for count in more.values()) else "known"


def _added(playbook: LearnedPlaybook, theirs: Bullet, at: float) -> BulletAdded:
    if len(playbook.bullets()) >= BULLETS_MAX:
        raise DeltaError(f"the playbook is full ({BULLETS_MAX} strategies); remove some first")
    taken = {one.id for one in (*playbook.bullets(), *playbook.archived())}
    free = _ID.fullmatch(theirs.id) and theirs.id not in taken
    return BulletAdded(
        at=at,
        id=theirs.id if free else playbook.next_id(theirs.section),
        section=theirs.section,
        content=theirs.content,
        source_goal=theirs.source_goal,
        helpful=theirs.helpful,
        harmful=theirs.harmful,
        neutral=theirs.neutral,
        evidence="imported",
        expires_at=seconds(theirs.expires_at) if theirs.expires_at else 0.0,
        created_at=theirs.created_at if seconds(theirs.created_at) else "",
        seen_in=theirs.seen_in,
    )
