"""The prompt inspector: the prompt of each turn is what the model was sent, byte for byte."""

import os

from llm_server import Reply, ScriptedLlm, calls

from clew_daemon.reading.instance import Instance
from clew_daemon.reading.prompt_text import inspected

SCRIPT = [calls(("run_cmd", {"cmd": f"seq {n} {n + 5}; echo {n} >> log"})) for n in range(3)]


def texts(messages):
    """The messages as they were sent, each with its calls."""
    return [
        (one["role"], (one.get("content") or "").splitlines())
        for one in messages
        if not one.get("tool_calls")
    ]


def shown(prompt):
    """The messages of the later prompt, without what it has no more, and without calls."""
    kept = [one for one in prompt.messages if one.change != "removed"]
    lines = [
        (one.role, [text for change, text in one.lines if change != "removed"]) for one in kept
    ]
    return [one for one in lines if not any(line.startswith("-> run_cmd ") for line in one[1])]


def test_the_prompt_of_each_turn_is_what_the_model_was_sent_and_marks_what_is_new(clew):
    with ScriptedLlm(*SCRIPT, then=Reply(hang=True)) as llm:
        clew.model(llm)
        goal = clew.start().submit("---\nagent: scripted\n---\n# Count in the log\n")
        clew.until(lambda: len(llm.requests) > len(SCRIPT), "the question that hangs")
        instance = Instance.of(clew.home, os.environ)
        for turn, asked in enumerate(llm.requests, 1):
            found = inspected(instance, goal, turn)
            assert (found.turn, found.turns) == (turn, len(SCRIPT) + 1)
            assert shown(found) == texts(asked["messages"])
        assert {"same", "added"} <= {one.change for one in found.messages}
        assert inspected(instance, goal, None) == inspected(instance, goal, len(SCRIPT) + 1)
        assert inspected(instance, goal, 99).turn == len(SCRIPT) + 1
