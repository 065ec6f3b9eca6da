"""`clew logs --json` is one JSON document, as with every command that reads."""

import json

import pytest

from clew_daemon.cli import run


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("TERM", "dumb")
    (tmp_path / "state").mkdir()
    lines = [json.dumps({"event": "daemon.ready", "goals": n}) for n in range(3)]
    (tmp_path / "state" / "clew.log").write_text("\n".join(lines) + "\n")
    return str(tmp_path)


def test_the_log_with_json_is_one_document(home, capsys):
    assert run(["--home", home, "logs", "--json", "-n", "2"]) == 0
    assert [entry["goals"] for entry in json.loads(capsys.readouterr().out)["log"]] == [1, 2]


def test_a_log_that_is_followed_cannot_be_one_document(home, capsys):
    assert run(["--home", home, "logs", "--json", "-f"]) == 2
    assert "--json" in capsys.readouterr().err
