"""Errors in the words of a person: no numbers of the system, no quotes of Python."""

import os

import pytest

from clew_daemon.processes import endings, workspace_guard
from clew_shared.text.plain import plain


def raised(act):
    with pytest.raises(FileNotFoundError) as caught:
        act()
    return caught.value


def test_an_error_of_the_system_names_what_failed_and_the_path(tmp_path):
    absent, other = tmp_path / "absent", tmp_path / "other"
    assert plain(raised(absent.read_bytes)) == f"no such file or directory: {absent}"
    assert plain(raised(lambda: absent.rename(other))) == (
        f"no such file or directory: {absent}: {other}"
    )
    assert (
        plain(PermissionError(13, "Permission denied", b"/x\xff")) == r"permission denied: /x\xff"
    )


def test_reasons_of_goals_have_no_numbers_of_the_system(tmp_path):
    (tmp_path / "file").touch()
    below = str(tmp_path / "file" / "workspace")
    lost = workspace_guard.enter(below, None, make=True)
    assert isinstance(lost, workspace_guard.Missing)
    assert lost.reason == f"the workspace cannot be created: not a directory: {below}"
    error = PermissionError(13, os.strerror(13), "/x")
    assert endings.by_fault(error).detail == "permission denied: /x"
    assert endings.by_surprise(error).detail == "permission denied: /x"
