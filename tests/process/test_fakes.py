"""Fakes and honest finishes of our own, through a daemon: the labels are those that docs/proof.md says."""

import json
import sys
from pathlib import Path

import pytest
from bench import fakes

CASES = [
    json.loads(line) for line in Path(fakes.__file__).with_suffix(".jsonl").read_text().splitlines()
]
MISSED = {"f-path-program"}  # a program of the project's own, whose name says nothing


@pytest.mark.long
@pytest.mark.timeout(900)
def test_every_case_ends_with_a_label_that_is_right(monkeypatch):
    monkeypatch.setenv("FAKES_PY", sys.executable)
    found = fakes.run(CASES, "auto")
    wrong = {one["id"] for one in CASES if found[one["id"]].partition(" ")[0] not in one["expect"]}
    assert wrong <= MISSED
