"""The doctor proves real coding agents: a goal in a home of its own, against its own endpoint."""

import json


def agent_checks(clew, *args, code=0):
    said = clew.clew("doctor", "--json", *args, code=code)
    return {
        one["name"]: one for one in json.loads(said)["checks"] if one["name"].startswith("agent")
    }


def test_the_doctor_finds_an_agent_and_proves_that_it_works_through_clew_alone(
    cli, installed, make_clew, tmp_path
):
    clew = make_clew()
    home = tmp_path / "user"
    home.mkdir()
    clew.env = {"HOME": str(home)}
    clew.configure({"agents.coder.cli": cli, "agents.coder.program": str(installed)})
    clew.configure({"sandbox.mode": "enforce"})
    found = agent_checks(clew)
    assert found["agent coder"]["level"] == "ok", found
    assert str(installed) in found["agent coder"]["found"]
    assert found["agent coder: proof"]["level"] == "ok", found
    assert "completed a test goal by clew's tools" in found["agent coder: proof"]["found"]
    assert list(home.iterdir()) == []
