"""The bench against libraries of durable steps: what its programs say, what the page makes of it. No peer is run."""

import importlib
import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FACTS = {
    "pragmas": {"dbos": "journal_mode = delete, synchronous = 2"},
    "counts": {},
    "seed": 7,
    "versions": {"clew": "0"},
    "missing": {},
}
SEEN = {"at": "2026-01-01T00:00", "cores": 2, "kernel": "6", "python": "3", "load": [0.5]}


STEPS = """
import sys
from itertools import count
from steps_line import Line
line = Line(int(sys.argv[1]), "work-0")
for step in count():
    line.turn()
    line.done(step)
"""


@pytest.fixture(autouse=True)
def importable(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    monkeypatch.syspath_prepend(str(ROOT / "bench" / "peers"))


def text(facts=(), **values):
    """The page's part, of series by name: `clew__launch=[1, 2]`."""
    figures = importlib.import_module("bench.figures")
    names = [name.replace("__", ": ").replace("_", " ") for name in values]
    series = {
        name: figures.Series(name, "ms", seen)
        for name, seen in zip(names, values.values(), strict=True)
    }
    result = figures.Result("it", SEEN, SEEN, {**FACTS, **dict(facts)}, series)
    return "\n\n".join(importlib.import_module("bench.peers.durable_page").text(result))


def test_a_peer_that_was_better_is_named_with_its_median():
    assert "- launch to first step: better than clew (900 ms): DBOS (500)." in text(
        clew__launch=[900], dbos__launch=[400, 500, 600], langgraph__launch=[901]
    )


def test_of_rates_the_higher_one_is_better():
    line = "- steps a second of eight: "
    assert f"{line}no other is clearly better" in text(clew__8_at_once=[900], dbos__8_at_once=[400])
    assert f"{line}better than clew (400" in text(clew__8_at_once=[400], dbos__8_at_once=[900])


def test_the_settings_with_which_a_peer_writes_are_shown():
    page = text(clew__step_at_10=[900], dbos__step_at_10=[400])
    assert "| DBOS | the outcome | journal_mode = delete, synchronous = 2 |" in page
    assert "| DBOS | 400 |" in page


def test_a_peer_that_could_not_be_had_is_named_with_the_reason():
    assert "langgraph is left out: no network." in text({"missing": {"langgraph": "no network"}})


@pytest.fixture
def bench():
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(30)
        yield server


def test_a_program_does_as_many_steps_as_it_was_asked_for_and_says_how_long_each_took(bench):
    port = str(bench.getsockname()[1])
    program = subprocess.Popen([sys.executable, "-c", STEPS, port], cwd=ROOT / "bench" / "peers")
    wire = importlib.import_module("bench.peers.steppers").StepWire(bench.accept()[0])
    assert wire.workflow == "work-0"
    wire.ask(2)
    assert len(wire.hear("took_s")["took_s"]) == 2
    wire.ask(1, tell=True)
    assert wire.hear("done")["done"] == 2
    wire.close()
    assert program.wait(60) == 0


def test_what_a_program_said_before_it_was_killed_is_heard_up_to_the_torn_word(bench):
    with socket.create_connection(bench.getsockname()) as program:
        program.sendall(b'{"workflow": "work-0"}\n{"done": 7}\n{"done": 8}\n{"do')
    wire = importlib.import_module("bench.peers.steppers").StepWire(bench.accept()[0])
    assert wire.rest() == [{"done": 7}, {"done": 8}]
    wire.close()


def test_what_was_carried_out_is_found_again_by_another_process(tmp_path):
    effects = importlib.import_module("steps_line").Effects(tmp_path / "e")
    for step in range(300):
        effects.carry_out(step)
    assert effects.has(299)
    assert not effects.has(300)
    assert not effects.has(9)  # too long ago to be the one under way


def test_an_agent_goes_on_after_the_last_action_on_record_unless_it_was_interrupted_undone(
    tmp_path,
):
    agents = importlib.import_module("bench.agents")
    effects = importlib.import_module("steps_line").Effects(tmp_path / "e")
    said = []
    line = type("Silent", (), {"say": staticmethod(said.append)})

    def hello(*actions):
        subtasks = [{"actions": [{"args": {"line": at}, "result": how} for at, how in actions]}]
        goal = {"tasks": [{"subtasks": subtasks}]}
        state = {"goal": goal, "current_task_idx": 0, "current_subtask_idx": 0}
        return json.loads(json.dumps({"state": state}))

    assert agents.next_step(hello(), effects, line) == 0
    assert agents.next_step(hello((0, "success")), effects, line) == 1
    assert agents.next_step(hello((0, "success"), (1, "interrupted")), effects, line) == 1
    effects.carry_out(1)
    assert agents.next_step(hello((0, "success"), (1, "interrupted")), effects, line) == 2
    assert [one["carried_out"] for one in said] == [False, True]
