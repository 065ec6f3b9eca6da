"""Durable steps on DBOS, as its tutorial has them: a workflow that calls a step in a loop. Run by its own interpreter.

steps_dbos.py FOLDER PORT WORKFLOWS [--decide] [--wal]. Where the folder holds unfinished workflows, DBOS recovers them.
`--decide`: the decision is a step of its own, so that it is on record before it is acted on.
`--wal`: the database is set to WAL by hand, once; DBOS leaves it at SQLite's default, a rollback journal.
"""

import functools
import signal
import sqlite3
import sys
import threading
from pathlib import Path

from dbos import DBOS, SetWorkflowID
from dbos._dbos import _get_dbos_instance
from steps_line import Effects, Line, action, result

FOLDER, PORT, WORKFLOWS = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
DECIDE, WAL = "--decide" in sys.argv, "--wal" in sys.argv
DATABASE = FOLDER / "dbos.sqlite"
ran = threading.local()  # which step's body ran in this thread: a replayed step's does not


@DBOS.step()
def decide(step):
    return action(step)


@DBOS.step()
def act(step, decided, name):
    ran.step = step
    effects(name).carry_out(step)
    return {**decided, **result(step)}


@DBOS.workflow()
def work(name):
    line = Line(PORT, name)
    line.say({"pragmas": pragmas()})
    step = 0
    while True:
        line.turn()
        act(step, decide(step) if DECIDE else action(step), name)
        if getattr(ran, "step", -1) == step:
            line.done(step)
        step += 1


@functools.cache
def effects(name):
    return Effects(FOLDER / f"{name}.effects")


def pragmas():
    """Return what the live connection runs with."""
    with _get_dbos_instance()._sys_db.engine.connect() as connection:  # noqa: SLF001 no public way
        ask = connection.exec_driver_sql
        return {name: ask(f"PRAGMA {name}").scalar() for name in ("journal_mode", "synchronous")}


def main():
    new = not DATABASE.exists()
    if WAL and new:
        with sqlite3.connect(DATABASE) as database:
            database.execute("PRAGMA journal_mode=WAL")
    url = f"sqlite:///{DATABASE}"
    DBOS(config={"name": "durable-steps", "system_database_url": url, "log_level": "WARNING"})
    DBOS.launch()
    for index in range(WORKFLOWS if new else 0):
        with SetWorkflowID(f"work-{index}"):
            DBOS.start_workflow(work, f"work-{index}")
    signal.pause()


if __name__ == "__main__":
    main()
