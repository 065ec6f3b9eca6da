"""What must hold on a real home after any fault: of the record, the effects, the files, the processes.

`record` reads the ledger and holds each event against the invariants of the simulator; the rest compare
what it tells with the world. All of them need a daemon that is dead or has stopped. An effect that is
to be counted is a line that a command of the form `echo WORD >> FILE` appends, perhaps after a `sleep N; `.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import invariants as hold
from harness import DEADLINE_S, Clew
from sim_account import Goal
from sim_world import Limits

from clew_daemon.cli.commands.verify import check_ledger
from clew_daemon.ledger import lock
from clew_daemon.record.goal_status import status_view
from clew_daemon.record.goal_view import standing
from clew_daemon.record.store import load_state
from clew_shared.ledger.reader import Reader
from clew_shared.record import events as ev
from clew_shared.record.codec import decode, dump
from clew_shared.record.state import State
from clew_shared.text.words import outcome

MAX_ACTIONS = 1000
ECHO = re.compile(r"(?:sleep [\d.]+; )?echo (\S+) >> (\S+)$")


@dataclass
class Deed:
    """An action that was allowed; `result` is "" while it is in flight."""

    seq: int
    epoch: int
    signature: str
    cmd: str
    result: str = ""


@dataclass
class Told:
    """What the record tells of a goal."""

    state: State
    deeds: dict[int, Deed] = field(default_factory=dict)
    shown: set[int] = field(default_factory=set)
    blocked: set[str] = field(default_factory=set)

    @property
    def id(self) -> str:
        return self.state.goal_id

    def take(self, seq: int, event: ev.Event) -> None:
        match event:
            case ev.ActionAllowed():
                cmd = str(event.args.get("cmd", ""))
                self.deeds[seq] = Deed(seq, event.epoch, event.signature, cmd)
            case ev.ActionBlocked():
                if event.makes_block:
                    self.blocked.add(event.signature)
                if not event.done:
                    self.shown.add(seq)
            case ev.ActionFinished() | ev.ActionInterrupted():
                self.shown.add(event.of)
                if event.of in self.deeds:
                    ended = isinstance(event, ev.ActionFinished)
                    self.deeds[event.of].result = event.result if ended else "interrupted"


def record(clew: Clew) -> dict[str, Told]:
    """Verify the ledger, hold every event against the invariants, and give what it tells, goal by goal."""
    path = clew.ledger
    found = check_ledger(path)  # what `clew verify --json` prints
    if found.fault and found.fault.message == "is still empty":
        # a first daemon died while it made the file: said so, until the next one has begun
        assert not clew.seen("goal.accepted"), found
        return {}
    assert found.ok, found
    if not found.events:
        return {}
    with Reader.open(path) as reader:
        return {goal: _told(reader, goal) for goal in reader.goals() if goal}


def _told(reader: Reader, goal: str) -> Told:
    watch = Goal(State(goal_id=goal), Limits(actions=MAX_ACTIONS))
    told = Told(watch.state)
    for row in reader.read(goal):
        event = decode(row.body)
        watch.take(row.seq, event, "")
        told.take(row.seq, event)
    whole = dump(watch.state)
    hold.a_snapshot_and_its_tail_are_the_whole_fold(goal, dump(load_state(reader, goal)), whole)
    return told


def effects_happened_at_most_once(told: Told) -> None:
    """Each allowed action had its effect at most once, and one that succeeded had it."""
    workspace = Path(told.state.spec.workspace)
    for cmd in {deed.cmd for deed in told.deeds.values()}:
        if not (echo := ECHO.match(cmd)):
            continue
        word, name = echo.groups()
        path = workspace / name
        ran = Counter(path.read_text().splitlines())[word] if path.exists() else 0
        results = Counter(deed.result for deed in told.deeds.values() if deed.cmd == cmd)
        sure, allowed = results["success"], results.total()
        assert sure <= ran <= allowed, f"{told.id}: {cmd} ran {ran} times; {dict(results)}"


def nothing_is_repeated_that_was_done(told: Told) -> None:
    """A step with an effect is taken anew only where its last attempt was interrupted, or was killed and failed."""
    last: dict[str, Deed] = {}
    for deed in told.deeds.values():
        if not ECHO.match(deed.cmd):
            continue
        before = last.get(deed.signature)
        assert before is None or before.result in ("interrupted", "failure", "timeout"), (
            f"{told.id}: #{deed.seq} repeats #{before.seq}, which was {before.result!r}"
        )
        last[deed.signature] = deed


def one_writer_per_ledger(clew: Clew) -> None:
    """Nobody else gets to write the ledger of a daemon that has answered, unless it has died since."""
    assert clew.daemon is not None
    path = lock.beside(clew.ledger)
    try:
        rival = lock.acquire(path, role=lock.RESTORE)
    except lock.LockHeldError as held:
        hold.one_writer_per_ledger([str(pid) for pid in {held.holder.pid, clew.daemon.pid}])
        return
    rival.release()
    code = clew.daemon.wait(DEADLINE_S)  # the kernel lets go of a lock before a death is told
    assert code, "a daemon that is alive does not hold its ledger's lock"


def history_is_whole(told: Told) -> None:
    """history.jsonl has each action that ended exactly once, in order."""
    path = Path(told.state.spec.workspace) / ".agent_context" / "history.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    shown = [json.loads(line)["seq"] for line in lines]
    hold.history_has_every_action_once(told.id, shown, told.shown)


def state_file_is_true(told: Told) -> None:
    """state.json says what the record says of how the goal stands."""
    found = json.loads((Path(told.state.spec.workspace) / ".agent_context/state.json").read_text())
    state = told.state
    assert found["goal"]["status"] == state.goal.status, f"{told.id}: {found['goal']}"
    assert (found["epoch"], found["restarts"]) == (state.epoch, state.restarts), told.id
    assert set(found["blocked_actions"]) == set(state.blocked_actions), told.id


def report_is_true(clew: Clew, told: Told) -> None:
    """The report tells the status, how often the worker was started again, and what was interrupted."""
    text = (clew.home / "outbox" / f"{told.id}.md").read_text()
    state = told.state
    assert f"- status: **{standing(status_view(state))}**" in text, text
    assert f"- restarts: {state.restarts}" in text.splitlines(), text
    for deed in list(told.deeds.values())[-10:]:
        result = re.escape(outcome(deed.result))
        assert re.search(rf"^- #{deed.seq} .* → {result}", text, re.MULTILINE), (deed, text)
    assert not told.blocked or "## Loops" in text, text


def each_drop_was_taken_once(clew: Clew, told: dict[str, Told], *names: str) -> None:
    """Every file that was dropped became one goal, and nothing of it is left in the inbox."""
    taken = Counter(one.state.spec.file_name for one in told.values())
    assert taken == Counter(names), taken
    left = {path.name for path in (clew.home / "inbox").iterdir() if path.is_file()}
    assert left <= {".clew.lock"}, left


def goal_is_whole(clew: Clew, told: Told) -> None:
    """All that must hold of a goal that has ended, or waits for a person, and of its files."""
    assert not told.state.in_flight, f"{told.id}: in flight are {list(told.state.in_flight)}"
    assert not told.state.working, told.id
    hold.every_rest_is_reported_and_learned_from(told.id, told.state)
    effects_happened_at_most_once(told)
    nothing_is_repeated_that_was_done(told)
    history_is_whole(told)
    state_file_is_true(told)
    report_is_true(clew, told)
