"""`clew loops` and `clew proof`: the evidence for what an agent was refused, and for its word that it is done."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click

from clew_daemon.cli import parameters
from clew_daemon.cli.parameters import Shown, reading
from clew_daemon.reading.client import call
from clew_daemon.reading.errors import CliError
from clew_daemon.reading.instance import Instance
from clew_daemon.reading.output import INDENT, Line
from clew_daemon.reading.queries import goal_state, ledger_if_any, open_ledger
from clew_daemon.reading.sanitize import clean, short
from clew_daemon.record import pages
from clew_daemon.record.pages import Step
from clew_shared.gate.rules import WHAT_ELSE
from clew_shared.proof import label
from clew_shared.record.moment import local
from clew_shared.record.snapshot_events import CheckRun, ProofMade
from clew_shared.record.state import ProofState, State
from clew_shared.text import words
from clew_shared.text.shorten import both_ends, one_line

ACTION_CHARS, ANSWER_CHARS, REASON_CHARS, LINE_CHARS = 60, 80, 200, 160
LEGEND = "#N: event N on record (`clew show GOAL N`); 1.2: task 1, subtask 2"
_NO_OUTPUT = "(no output)"

Loop = Mapping[str, Any]  # an entry of `clew loops --json` (`record.pages`)


@reading(parameters.optional_goal, parameters.limit())
def loops(instance: Instance, goal: str | None, limit: int) -> Shown:
    """Show the last loops, oldest first: what was repeated, and what the agent was told."""
    found: Sequence[Loop] = ()
    more, steps = False, dict[int, Step]()
    with ledger_if_any(instance) as reader:
        if reader is not None:
            found, more = pages.findings(reader, goal, limit)
            shown = {(one["goal"], seq) for one in found for seq in one["steps"]}
            known = {seq: pages.step(reader, of, seq) for of, seq in shown}
            steps = {seq: step for seq, step in known.items() if step}
    lines = [line for entry in found for line in loop_lines(entry, steps)]
    end: Line = [(LEGEND if found else "no loops", "dim")]
    text = [*parameters.earlier_lines(more), *lines, end]
    return {"loops": found, "more": more}, text


def loop_lines(entry: Loop, steps: Mapping[int, Step]) -> Iterator[Line | str]:
    """Yield a loop as a person reads it: when and where, what was repeated, and what was said."""
    count, warning, stays = entry["attempt_count"], entry["intervention"], entry["stays"]
    why = words.warned(warning) if warning else words.loop(entry["kind"])
    what = "told again" if entry["again"] else "told" if warning else "refused"
    if entry["escalated_to"]:
        what, why = "given up", "the subtask failed"
    is_new = count > 1 and words.times(count) not in (entry["evidence"] or "")
    place = f"{clean(entry['goal'])} {entry['task_idx'] + 1}.{entry['subtask_idx'] + 1}"
    yield [
        (f"{clean(local(entry['timestamp']))}  ", "dim"),
        (f"{place}  ", ""),
        (clean(f"{what}: {words.SAME_ANSWER if stays else why}"), "bold magenta"),
        (f" (the {words.ordinal(count)} time)" if is_new else "", ""),
    ]
    for one in filter(None, map(steps.get, entry["steps"])):
        yield f"{INDENT}  #{one.seq} {short(one.text, ACTION_CHARS)}{_answered(one)}"
    if entry["action"]:
        yield f"{INDENT}It asked for this again: {clean(entry['action'])}"
    if said := str(entry["message"] or entry["evidence"] or ""):
        who = "The agent was told" if entry["message"] else "Why"
        shown = clean(said.partition(f" {WHAT_ELSE}")[0])  # that advice is always the same
        yield [(f"{INDENT}{who}: {shown}", "dim")]
    if level := entry["escalated_to"]:
        left = "you were asked" if level == "person" else "another plan was asked for"
        yield f"{INDENT}What came of it: {left}"
    yield ""


def _answered(one: Step) -> str:
    """Return the result and the answer in a line, of a failure the line that says why; "" while it runs."""
    said = clean(both_ends(one_line(one.answer), ANSWER_CHARS)) or _NO_OUTPUT
    if one.result != "success":
        said = clean(words.key_line(one.answer, REASON_CHARS)) if one.answer.strip() else ""
    return f" → {words.outcome(one.result)}{f': {said}' if said else ''}" if one.result else ""


# -- proof

DEADLINE_S, GOAL_LINES, OUTPUT_LINES = 180.0, 8, 12
SAYS_NOT = (
    "It does not say that the tests are good ones: a check that the agent cannot edit says more."
)
SHOWN = {"label", "files", "why", "seconds", "taken_away", "checks", "diff", "without_work"}
_MOMENTS = ("before the work", "at the finish", "without these changes")
_KINDS = {"home": "in its HOME", "git": "of git", "process": "running"}
_DECIDE = (
    "Does the goal ask for these changes, for example because what is tested gets another name or result? Then accept "
    "them. If a test now asks for less, is skipped, or expects a wrong result, send the work back with what is wrong."
)


@reading(
    parameters.goal,
    parameters.flag("--accept", "Accept the work as it is, and end the goal."),
    click.argument("why", required=False, default=""),
)
def proof(instance: Instance, goal: str, accept: bool, why: str) -> Shown:
    """Show what speaks for a goal's finish: its label, what judges it and was changed, and each run of its checks.

    Exit code 0: it ended proven, checked, with tests of its own, or accepted; 1: any other.
    """
    if why and not accept:
        raise click.UsageError("WHY is for --accept")
    said = ""
    if accept:
        said = call(instance.socket, "accept", within_s=DEADLINE_S, goal=goal, why=why)["said"]
    state = goal_state(instance, goal)
    known, made = state.proofs.made, None
    if known:
        with open_ledger(instance) as reader:
            made = pages.event_at(reader, goal, known.seq)
    if known is None or not isinstance(made, ProofMade):
        none = "its checks have not all passed at a finish yet"
        missing = none if state.spec.checks else "the goal has no checks"
        raise CliError(f"{goal}: there is no proof: {missing}")
    reason = known.reason or made.reason  # at the last refusal, or when the proof was made
    view = made.model_dump(mode="json", include=SHOWN)
    view |= {"goal": goal, "accepted": known.accepted, "reason": reason or None}
    good = state.goal.status == "completed" and (made.label in label.ENDS or bool(known.accepted))
    lines = [f"{goal}: {said}"] if accept else proof_lines(state, known, made, reason)
    return view, lines, not good


def proof_lines(state: State, known: ProofState, made: ProofMade, reason: str) -> Iterator[Line]:
    """Yield a proof as a person reads it who decides: what was asked for, what was changed, what came of it."""
    yield [(clean(state.goal_id), "bold"), (f"  {clean(state.goal.description)}", "")]
    goal = state.goal
    tasks = (f"- {it.description}" for it in goal.tasks if it.description != goal.description)
    asked_for = [*state.spec.notes.splitlines(), *tasks][:GOAL_LINES]
    yield from ([(f"  {short(line, LINE_CHARS)}", "dim")] for line in asked_for)
    said = label.words(made.label, "", known.accepted)
    named = "" if said.startswith(made.label) else f"{made.label}: "
    yield [("label: ", "bold"), (f"{named}{said}", "")]
    without = label.WITHOUT_WORK.get(made.without_work or "", "")
    for what, text in (("why: ", made.why), ("", without), ("the agent's reason: ", reason)):
        if text:
            yield [(what, "bold"), (clean(text), "")]
    if made.taken_away:
        yield [("the agent changed these, which judge its work:", "bold")]
        for one in made.taken_away:
            yield [(f"  {clean(one.path)}", ""), (f"  {_KINDS.get(one.kind, '')}", "dim")]
    if made.diff:
        yield [("how (- before the work, + now):", "bold")]
    for line in made.diff.splitlines():
        if not line.startswith(("diff --git ", "index ")):
            yield [(f"  {clean(line)}", {"+": "green", "-": "red"}.get(line[:1], ""))]
    yield from _check_lines(made)
    yield [(SAYS_NOT, "dim")]
    if known.asked:
        yield [(_DECIDE, "")]
        yield [(f"  accept:    clew proof {state.goal_id} --accept", "yellow")]
        yield [(f'  send back: clew feedback {state.goal_id} "…"', "yellow")]


def _check_lines(made: ProofMade) -> Iterator[Line]:
    yield [("checks:", "bold")]
    for one in made.checks:
        yield [(f"  {clean(one.name)}", "")]
        for moment, run in zip(_MOMENTS, (one.before, one.finish, one.view), strict=True):
            ended = made.label in label.ENDS and moment == _MOMENTS[-1]
            none = "not needed" if ended else "not known"
            yield [(f"    {moment}: ", "dim"), (_run(run) if run else none, "")]
    if made.output:
        yield [("what fails without these changes:", "bold")]
    yield from ([(f"  {clean(one)}", "dim")] for one in made.output.splitlines()[-OUTPUT_LINES:])


def _run(run: CheckRun) -> str:
    ended = {None: "took too long", 0: "passed"}.get(run.exit_code, f"exit code {run.exit_code}")
    counts = (("passed", run.passed), ("failed", run.failed), ("skipped", run.skipped))
    tests = ", ".join(f"{n} {what}" for what, n in counts if n)
    return f"{ended} in {run.seconds:.1f} s{f' ({tests})' if tests else ''}"
