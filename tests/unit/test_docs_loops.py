"""The examples of docs/loops.md, played through the core."""

import re
from pathlib import Path

import pytest

from clew_shared.core.answers import ActionReport

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "loops.md").read_text()
ROWS = re.findall(r"^\| (.+?) \| `([·✗! …]+)` \|", PAGE, re.MULTILINE)

PYTEST = ("run_cmd", {"cmd": "pytest"}, "failure", "2 failed", "w0")
IN_W1 = (*PYTEST[:4], "w1")


def edit(old, new, world):
    return ("edit_file", {"path": "a.py", "old": old, "new": new}, "success", "diff", world)


def search(pattern):
    return ("search", {"pattern": pattern}, "success", "nothing", "w0")


def run(command, result, output):
    return ("run_cmd", {"cmd": command}, result, output, "w0")


TESTED_EDITS = [
    step
    for i in range(6)
    for step in ((*PYTEST[:3], f"{9 - i} failed", f"w{i}"), edit(str(i), str(i + 1), f"w{i + 1}"))
]
EDITS = [edit(str(i), str(i + 1), f"w{i + 1}") for i in range(5)]


def failing(*counts):
    """Return edits, each followed by the same test, with these numbers of failures."""
    return [
        step
        for i, failed in enumerate(counts)
        for step in (EDITS[i], (*PYTEST[:3], f"{failed} failed", f"w{i + 1}"))
    ]


def read(limit):
    text = "\n".join(f"line {n}" for n in range(40))
    return ("read_file", {"path": "a.py", "max_lines": limit}, "success", text, "w0")


def send(i):
    return ("send_message", {"to": "x"}, "success", f"sent, id {i}f3a91c{i}", "w0")


PLAYED = [
    [PYTEST] * 4,
    TESTED_EDITS,
    [("read_file", {"path": "a.py"}, "success", "text", "w0")] * 5,
    [("write_file", {"path": "a", "content": "1"}, "success", "unchanged", "w1")] * 3,
    [("write_file", {"path": "a", "content": "0"}, "success", "unchanged", "w0")] * 4,
    [run("curl x", "failure", "HTTP 429 Too Many Requests")] * 6,
    [run("tail log", "success", f"line {i}") for i in range(8)],
    [edit("1", "2", "w1"), edit("2", "1", "w0")] * 2,
    [search("a"), search("b"), search("c")] * 3,
    [send(i) for i in range(6)],
    [read(limit) for limit in (50, 100, 200, 400)],
    failing(3, 5, 3, 5),
    failing(1, 1, 1, 1),
    [run(f"cat /no/such; echo {i}", "failure", "cat: /no/such: absent") for i in range(6)],
    [*[PYTEST] * 3, ("write_file", {"path": "b", "content": "x"}, "success", "", "w1"), IN_W1],
]


def mark(agent, tool, args, result, output, world):
    verdict = agent.core.propose(tool, args, 1.0)
    if not verdict.allowed:
        return "✗"
    heard = agent.core.outcome(verdict.seq, ActionReport(result, output, None, world), 1.0)
    return "!" if verdict.intervention or heard.intervention else "·"


def test_every_example_of_the_page_is_played():
    assert len(ROWS) == len(PLAYED)


@pytest.mark.parametrize("number", range(len(PLAYED)))
def test_the_examples_of_the_page_hold(played, number):
    _, shown = ROWS[number]
    marks = shown.replace("…", "").split()
    agent = played()
    agent.core.see_world("w0", 0.0)
    found = [mark(agent, *step) for step in PLAYED[number]]
    assert found[-len(marks) :] == marks
    if "…" in shown:
        assert set(found) == {"·"}
