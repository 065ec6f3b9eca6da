"""What follows from a label that refuses a finish: what the agent is told, and what a person is asked. Pure."""

from clew_shared.core.questions import Question, question
from clew_shared.proof.label import WORDS
from clew_shared.record.state import ProofState, State
from clew_shared.text.shorten import in_one_line

FILES_SHOWN = 5
LINE_CHARS = 300
REFUSED_MAX = 2
"""As often may a finish be refused by the same label in the same world, before the attempt is over."""

_REMEDIES = {
    "changed_tests": "Put them back as they were, and make the work itself pass",
    "changed_tools": "Put them back as they were, and make the work itself pass",
    "left_running": "Stop what you have left running, and make the checks pass without it",
    "fewer_tests": "Have all tests run that ran before",
    "failing_tests": "Make these tests pass",
    "watches_tests": "Write code that does not know whether it is tested",
    "unknown": "Find out why the checks do not pass in a fresh copy of the workspace",
}


def told(made: ProofState, diff: str, output: str, *, asked: bool) -> str:
    """Return what an agent is told of a finish that its label refuses; `output` ends what fails without its change."""
    about = f" ({_names(made.files)})" if made.files else ""
    lines = [f"Not accepted: the checks pass, but {WORDS[made.label]}{about}: {made.why}."]
    lines += [f"As they were at the start:\n{output}"] if output else []
    lines += [f"Your change of them:\n{diff}"] if diff else []
    if asked:
        return "\n".join([*lines, "A person is asked whether that is what the goal needs."])
    remedy = _REMEDIES.get(made.label, "Make the checks pass without that")
    call = 'call finish again with tests_changed: "why the goal needs it"; a person is then asked'
    return "\n".join([*lines, f"{remedy}. If the goal needs it, {call}."])


def asks_about(state: State, reason: str) -> Question:
    """Return what a person is asked about a finish that a label refuses; `reason` is the agent's."""
    made = state.proofs.made
    assert made is not None  # noqa: S101 - it was just recorded
    why = f"the checks pass, but {WORDS[made.label]}: {in_one_line(made.why, LINE_CHARS)}"
    given = (
        f"The agent's reason: {in_one_line(reason, LINE_CHARS)}"
        if reason
        else "The agent gave no reason"
    )
    facts = (f"It is about: {_names(made.files)}" if made.files else "", given)
    return question(state, why, "proof", "accept_proof", "feedback", facts=facts)


def _names(files: tuple[str, ...]) -> str:
    more = f" and {len(files) - FILES_SHOWN} more" if len(files) > FILES_SHOWN else ""
    return ", ".join(files[:FILES_SHOWN]) + more
