"""What a forked agent finds itself with: nothing of the nursery's that should not be there."""

import json
import signal
from pathlib import Path

import pytest

from clew_shared.wire.nursery import CHANNEL_FD

LLM = ("clew_worker.agent.llm",)
HERE = Path(__file__).with_name("inherited")


@pytest.fixture(scope="module")
def looking(variant, make_nursery):
    modules = (
        ("looker",) if variant != ("pidns", None) else (*LLM, "looker")
    )  # slow: once is enough
    with make_nursery(variant[1], modules=modules, path=str(HERE)) as nursery:
        if variant[0] == "pidns" and nursery.hello.sandbox.isolation != "pidns":
            pytest.skip("no PID namespaces here")
        yield nursery
        nursery.end_cells()


@pytest.fixture
def look(looking, spec):
    """What an agent finds; how often you like."""

    def find():
        cell = looking.spawn(spec("agent").model_copy(update={"agent": "llm", "umask": 0o027}))
        found = json.loads(cell.read_log())
        assert cell.wait() == 0
        return found

    return find


def test_an_agent_inherits_nothing_that_it_should_not(look, home):
    found = look()
    assert set(found["descriptors"]) == {"0", "1", "2", str(CHANNEL_FD)}
    assert found["descriptors"]["0"] == "/dev/null"
    assert found["handled"] == found["blocked"] == []
    # Python itself ignores these two at its start, and programs are started with them as usual
    assert set(found["ignored"]) <= {signal.SIGPIPE, signal.SIGXFSZ}
    assert found["timer"] == [0.0, 0.0]
    assert found["threads"] == found["python_threads"] == 1
    assert found["session_is_own"]
    assert found["group_is_own"]
    assert found["umask"] == 0o027
    assert found["cwd"] == str(home / "workspace")
    assert set(found["environ"]) == {"PATH", "TMPDIR", "CLEW_FD"}
    assert found["core"] == [0, 0]
    assert found["tls_contexts"] == 0
    assert found["loops"] == []
    assert found["no_new_privs"]
    assert found["filtered"]


def test_two_agents_draw_different_random_numbers(look):
    drawn = [look()["drawn"] for _ in range(3)]
    for values in zip(*drawn, strict=True):
        assert len(set(values)) == 3
