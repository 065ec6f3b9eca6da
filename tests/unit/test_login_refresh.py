"""A login file is taken where it is its user's alone; refreshed tokens are written back, and nothing else is."""

import json

import pytest

from clew_daemon.host.keys import KeyFileError, login_copies, only_tokens_differ, write_back

OLD = {"auth_mode": "chatgpt", "tokens": {"access_token": "a1", "account_id": "me"}, "expires": 1}
OLD_TEXT = json.dumps(OLD)


def refreshed(**changes):
    return json.dumps({**OLD, **changes})


NEW_TEXT = refreshed(tokens={"access_token": "a2", "account_id": "me"}, expires=2)


@pytest.fixture
def login(tmp_path):
    path = tmp_path / "auth.json"
    path.write_text(OLD_TEXT)
    path.chmod(0o600)
    return path


def test_a_copy_has_the_place_that_the_file_has_in_the_users_home_and_is_no_one_elses(login):
    assert login_copies([login], {"HOME": str(login.parent)}) == {"auth.json": OLD_TEXT}
    login.chmod(0o644)
    with pytest.raises(KeyFileError, match="chmod 600"):
        login_copies([login], {})


@pytest.mark.parametrize(
    "text",
    [
        OLD_TEXT,
        refreshed(auth_mode="other"),
        refreshed(more=1),
        refreshed(tokens={"access_token": "a2", "account_id": "you"}),
        refreshed(tokens={"access_token": ["a2"], "account_id": "me"}),
        refreshed(tokens={"access_token": "a" * 20_000, "account_id": "me"}),
        "[]",
        "no JSON",
        "[" * 100_000,
    ],
)
def test_anything_else_is_not(login, text):
    assert not only_tokens_differ(OLD_TEXT, text)
    assert write_back(login, OLD_TEXT, text) != ""
    assert login.read_text() == OLD_TEXT


def test_a_link_is_not_followed(login, tmp_path):
    link = tmp_path / "link.json"
    link.symlink_to(login)
    assert write_back(link, OLD_TEXT, NEW_TEXT) != ""
    assert login.read_text() == OLD_TEXT
    assert link.is_symlink()
