"""The login files of coding agents."""

import json

import pytest

from clew_daemon.host.keys import KeyFileError
from clew_daemon.host.logins import login_copies
from clew_shared.text.redact import redact

TOKEN = "rt-zQ81kXw02LmPt7yVbN44"


def login(folder, text, mode=0o600):
    path = folder / ".codex" / "auth.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
    return path


def test_a_copy_has_the_place_that_the_file_has_in_the_users_home(tmp_path):
    path = login(tmp_path, "{}")
    assert login_copies([path], {"HOME": str(tmp_path)}) == {".codex/auth.json": "{}"}
    assert login_copies([path], {"HOME": "/elsewhere"}) == {"auth.json": "{}"}


def test_its_tokens_are_redacted_from_then_on(tmp_path):
    path = login(tmp_path, json.dumps({"tokens": {"refresh_token": TOKEN}}))
    login_copies([path], {"HOME": str(tmp_path)})
    assert TOKEN not in redact(f"it printed {TOKEN}")


def test_a_file_that_others_can_read_is_refused(tmp_path):
    path = login(tmp_path, "{}", 0o644)
    with pytest.raises(KeyFileError, match="chmod 600"):
        login_copies([path], {})
