"""A model that works on the goal of writing a.txt and b.txt."""

from scripted_wires import Call, Say

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
        if len(seen.results) < len(first):
            return first[len(seen.results)]
        if "a.txt (" not in text:
            return TWO_FILES[0]
        if "Next subtask: Write b" not in text and "not completed yet" not in text:
            return TWO_FILES[1]
        if "b.txt (" not in text:
            return TWO_FILES[2]
        return Say("Done.") if "The goal is completed" in text else TWO_FILES[3]

    return step
