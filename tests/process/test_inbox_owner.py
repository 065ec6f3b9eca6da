"""Two daemons, each on a home of its own, with one inbox: every goal runs once, and a person is told why."""

import json
import random
import signal
import subprocess
import sys
import textwrap
from collections import Counter

import pytest

from clew_daemon.inbox.files import LOCK_NAME

STEPS = "# Note it\n## It\n- [ ] Note it\n  ```sh\n  echo once >> trace\n  ```\n"


def test_a_second_daemon_on_the_same_inbox_refuses_to_start_and_says_who_owns_it(make_clew):
    first = make_clew(name="first").start()
    second = make_clew({"paths.inbox": str(first.home / "inbox")}, name="second")
    second.start(ready=False)
    assert second.daemon.wait(60) == 1
    said = second.log.read_text()
    assert "belongs to another daemon" in said
    assert str(first.daemon.pid) in said
    assert "[paths] inbox" in said
    goal = first.submit(STEPS)
    first.wait("goal.completed", goal=goal)
    assert first.lines(goal, "trace") == ["once"]


def test_an_inbox_is_free_when_its_owner_was_killed_and_what_it_claimed_is_taken(make_clew):
    first = make_clew(name="first").start()
    first.kill()
    inbox = first.home / "inbox"
    first.drop(STEPS, "claimed.md")
    found = (inbox / "claimed.md").stat()
    mark = f"{found.st_ino:x}-{found.st_ctime_ns:x}-{found.st_mtime_ns:x}-{found.st_size:x}"
    (inbox / "claimed.md").rename(inbox / f".clew-claimed-{mark}.claimed.md")
    second = make_clew({"paths.inbox": str(inbox)}, name="second").start()
    goal = second.wait("goal.accepted", file="claimed.md")["goal"]
    second.wait("goal.completed", goal=goal)
    assert {path.name for path in inbox.iterdir() if path.is_file()} == {".clew.lock"}


# -- the inbox of a daemon that is killed again and again while it takes files


DAEMON = textwrap.dedent(
    """
    import asyncio, json, os, signal, sys
    from pathlib import Path
    import structlog
    from clew_daemon.inbox.inbox import Inbox
    from clew_daemon.inbox.files import InboxOwner

    folder, record, kill_at = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    known = [json.loads(line) for line in record.read_text().splitlines()]
    identities = {tuple(entry["identity"]) for entry in known}
    ledger = os.open(record, os.O_WRONLY | os.O_APPEND)

    async def accept(drop):
        if drop.raw == b"bad":
            return "bad"
        if drop.identity in identities:
            return None
        entry = json.dumps({"name": drop.name, "identity": drop.identity})
        os.write(ledger, entry.encode() + b"\\n")
        identities.add(drop.identity)
        return None

    steps = 0

    def kill(event, args):
        global steps
        if event in ("os.rename", "os.remove", "open"):
            steps += 1
            if steps == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)

    async def main():
        log = structlog.wrap_logger(structlog.ReturnLogger(), processors=[])
        inbox = Inbox(folder, folder / "rejected", settle_s=0, sweep_s=60,
                      owner=InboxOwner(folder), accept=accept, log=log)
        sys.addaudithook(kill)
        await inbox.sweep()
        await inbox.sweep()
        await inbox.stop()

    asyncio.run(main())
    """
)


@pytest.mark.parametrize("seed", [1])
def test_fifty_files_survive_kills_at_any_step_each_exactly_once(tmp_path, seed):
    chance = random.Random(seed)
    folder, record = tmp_path / "inbox", tmp_path / "record"
    folder.mkdir()
    record.touch()
    for count in range(50):
        (folder / f"goal-{count}.md").write_text(f"# Goal {count}" if count % 5 else "bad")
    kills = 0
    while left := sum(path.is_file() and path.name != LOCK_NAME for path in folder.iterdir()):
        # Claiming takes two steps a file, reading one, putting away one or more: kill in all of them.
        point = chance.randrange(5, 5 + 2 * left) if kills < 6 else 0
        command = [sys.executable, "-c", DAEMON, str(folder), str(record), str(point)]
        code = subprocess.run(command, check=False, timeout=60).returncode
        assert code in (0, -signal.SIGKILL)
        kills += code != 0
    assert kills >= 3
    accepted = Counter(json.loads(line)["name"] for line in record.read_text().splitlines())
    assert accepted == {f"goal-{count}.md": 1 for count in range(50) if count % 5}
    names = {f"goal-{count}.md" for count in range(0, 50, 5)}
    found = {path.name for path in (folder / "rejected").iterdir()}
    assert found == names | {f"{name}.error.txt" for name in names}
