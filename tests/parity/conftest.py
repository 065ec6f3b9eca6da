"""The library's tests run as somebody would who has just adopted it: in a folder of their own, without a daemon."""

import pytest


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CLEW_FD", raising=False)
    return tmp_path
