"""A process that is killed while it appends has lost nothing that it was told is durable."""

import signal
import subprocess
import sys

from clew_shared.ledger import Ledger, Reader, verify

APPENDER = """
import asyncio, os, sys
from pathlib import Path
from clew_shared.ledger import NewEvent, Ledger

async def appender(ledger, name):
    count = 0
    while True:
        count += 1
        text = f"{name} {count} {os.getpid()}"
        output = text.encode() * 100 if count % 3 == 0 else None
        seqs, done = ledger.append([NewEvent(name, "noted", text.encode(), output)] * 2)
        await done
        os.write(1, f"{seqs[1]} {text}\\n".encode())

async def main():
    ledger = Ledger.open(Path(sys.argv[1]))
    await asyncio.gather(*(appender(ledger, f"goal-{i}") for i in range(6)))

asyncio.run(main())
"""


def killed_after(acknowledged: int, path) -> list[str]:
    """Run the appender until it reported so many, SIGKILL it, give all that it reported."""
    with subprocess.Popen([sys.executable, "-c", APPENDER, path], stdout=subprocess.PIPE) as child:
        lines = [child.stdout.readline() for _ in range(acknowledged)]
        child.send_signal(signal.SIGKILL)
        lines += child.stdout.readlines()
    assert child.returncode == -signal.SIGKILL
    return [line.decode().rstrip("\n") for line in lines if line.endswith(b"\n")]


async def test_everything_acknowledged_is_there_after_sigkill(tmp_path):
    path = tmp_path / "ledger.db"
    told: dict[int, str] = {}
    for acknowledged in (1, 50, 333, 1000):
        for line in killed_after(acknowledged, path):
            seq, _, text = line.partition(" ")
            told[int(seq)] = text
        report = verify(path)  # reads what the killed process left, before anyone mends it
        assert report.fault is None
        with Reader.open(path) as reader:
            there = {row.seq: row.body.decode() for row in reader.read_all()}
        assert told.items() <= there.items()
        assert all(there[seq - 1] == text for seq, text in told.items())

    ledger = Ledger.open(path)
    await ledger.close(10)
    assert verify(path).ok
