"""A model that works on the goal of writing a.txt and b.txt."""

import json

from scripted_wires import Call, Say

BEGUN_AGAIN = ("You were interrupted", "The last actions on record", "A person says")
"""In clew's prompts after a first call, whose result the CLI may not have kept: opencode does not when it is killed."""

TWO_FILES = [
    Call("clew_write", {"path": "a.txt", "content": "one"}),
    Call("clew_done", {"success": True, "summary": "wrote a"}),
    Call("clew_write", {"path": "b.txt", "content": "two"}),
    Call("clew_done", {"success": True, "summary": "wrote b"}),
    Say("Both files are written."),
]


def worker(*first):
    """A model that makes the first calls, then goes by the results that it sees, however its session was resumed."""

    def step(seen):
        text = "\n".join(seen.results)
        begun_again = any(words in json.dumps(seen.body) for words in BEGUN_AGAIN)
        if len(seen.results) < len(first) and not begun_again:
            return first[len(seen.results)]
        if "a.txt (" not in text:
            return TWO_FILES[0]
        if "Next subtask: Write b" not in text and "not completed yet" not in text:
            return TWO_FILES[1]
        if "b.txt (" not in text:
            return TWO_FILES[2]
        return Say("Done.") if "The goal is completed" in text else TWO_FILES[3]

    return step
