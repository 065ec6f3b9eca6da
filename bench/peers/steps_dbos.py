"""Durable steps on DBOS, as its tutorial has them: a workflow that calls a step in a loop. Run by its own interpreter.

steps_dbos.py FOLDER PORT WORKFLOWS [--decide] [--wal]. Where the folder holds unfinished workflows, DBOS recovers them.
`--decide`: the decision is a step of its own, so that it is on record before it is acted on.
`--wal`: the database is set to WAL by hand, once; DBOS leaves it at SQLite's default, a rollback journal.
`steps_dbos.py FOLDER --fail TIMES` tries one failing step again and again, and prints what was seen as JSON.
"""

import functools
import json
import signal
import sqlite3
import sys
import threading
from pathlib import Path

from dbos import DBOS, SetWorkflowID
from dbos._dbos import _get_dbos_instance
from steps_line import Effects, Line, action, result

FOLDER, FAILS = Path(sys.argv[1]), sys.argv[2] == "--fail"
NUMBERS = [int(word) for word in sys.argv[2:4] if word.isdigit()]
DECIDE, WAL = "--decide" in sys.argv, "--wal" in sys.argv
DATABASE = FOLDER / "dbos.sqlite"
ran = threading.local()  # which step's body ran in this thread: a replayed step's does not
seen = {"ran": 0, "retried": 0}


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
    line = Line(NUMBERS[0], name)
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


@DBOS.step()
def failing():
    seen["ran"] += 1
    raise ValueError("pytest nowhere.py: no such file")


@DBOS.step(retries_allowed=True, interval_seconds=0.01)
def retried():
    seen["retried"] += 1
    raise ValueError("pytest nowhere.py: no such file")


@DBOS.workflow()
def stubborn(times):
    """Behave like an agent that does not notice that it goes in circles."""
    for _ in range(times):
        try:
            failing()
        except ValueError:
            continue


@DBOS.workflow()
def once():
    try:
        retried()
    except Exception as error:  # noqa: BLE001 its class is the question
        return type(error).__name__
    return "no error"


def main():
    new = not DATABASE.exists()
    if WAL and new:
        with sqlite3.connect(DATABASE) as database:
            database.execute("PRAGMA journal_mode=WAL")
    level = "CRITICAL" if FAILS else "WARNING"
    url = f"sqlite:///{DATABASE}"
    DBOS(config={"name": "durable-steps", "system_database_url": url, "log_level": level})
    DBOS.launch()
    if FAILS:
        stubborn(NUMBERS[0])
        print(json.dumps({"tried": NUMBERS[0], "retries_end_with": once(), **seen}))
        DBOS.destroy()
        return
    for index in range(NUMBERS[1] if new else 0):
        with SetWorkflowID(f"work-{index}"):
            DBOS.start_workflow(work, f"work-{index}")
    signal.pause()


if __name__ == "__main__":
    main()
