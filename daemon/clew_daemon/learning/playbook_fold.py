"""The playbook as a fold of its events in the ledger.

A replay on any machine at any time yields the same playbook, ids included. Decisions are made in `deltas`.
"""

from collections.abc import Iterable

from clew_shared.playbook.bullet import Bullet
from clew_shared.playbook.playbook import LearnedPlaybook
from clew_shared.record import events as ev
from clew_shared.record.daemon_events import (
    BulletAdded,
    BulletRemoved,
    BulletRestored,
    BulletTagged,
    BulletUpdated,
)
from clew_shared.record.moment import iso


def fold(events: Iterable[ev.Event], playbook: LearnedPlaybook | None = None) -> LearnedPlaybook:
    """Return the playbook with recorded events applied, oldest first."""
    playbook = playbook or LearnedPlaybook()
    for event in events:
        apply(playbook, event)
    return playbook


def apply(playbook: LearnedPlaybook, event: ev.Event) -> None:
    """Apply one event to the playbook, in place; an unknown id changes nothing."""
    match event:
        case BulletAdded():
            playbook.put(_bullet(event))
        case BulletTagged():
            if bullet := playbook.get_bullet(event.id):
                bullet.tag(event.tag, event.times, iso(event.at))
                if bullet.expires_at and event.expires_at:
                    bullet.expires_at = iso(event.expires_at)
                if event.seen:
                    bullet.see(event.source_goal)
        case BulletUpdated():
            if bullet := playbook.get_bullet(event.id):
                bullet.content, bullet.updated_at = event.content, iso(event.at)
        case BulletRemoved():
            playbook.remove_bullet(event.id)
        case BulletRestored():
            playbook.restore_bullet(event.id)
        case _:
            pass


def _bullet(event: BulletAdded) -> Bullet:
    return Bullet(
        id=event.id,
        section=event.section,
        content=event.content,
        helpful=event.helpful,
        harmful=event.harmful,
        neutral=event.neutral,
        created_at=event.created_at or iso(event.at),
        updated_at=iso(event.at),
        source_goal=event.source_goal,
        expires_at=iso(event.expires_at) if event.expires_at else "",
        seen_in=event.seen_in,
    )
