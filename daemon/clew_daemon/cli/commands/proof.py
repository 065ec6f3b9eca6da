"""`clew proof`: what a goal's label says and does not say, and the word of a person who accepts it."""

from collections.abc import Iterator

import click

from clew_daemon.cli import parameters
from clew_daemon.control.requests import AcceptRequest
from clew_daemon.reading.client import send
from clew_daemon.reading.errors import CliError
from clew_daemon.reading.instance import Instance
from clew_daemon.reading.output import Line, show
from clew_daemon.reading.queries import goal_state, open_ledger
from clew_daemon.reading.sanitize import clean
from clew_shared.proof.label import ENDS, words
from clew_shared.record.codec import decode
from clew_shared.record.snapshot_events import CheckRun, ProofMade
from clew_shared.record.state import State

DEADLINE_S = 180.0
SAYS_NOT = (
    "It does not say that the tests are good ones, nor that the code does what was meant where no test looks. "
    "A check of your own that is not in the workspace says more."
)
SHOWN = {"label", "files", "why", "seconds", "taken_away", "checks", "diff", "without_work"}
_MOMENTS = ("before the work", "at the finish", "without its changes")
_WITHOUT = {
    "pass": "Its tests pass without its other changes, too: they test nothing of its work.",
    "fail": "Its tests fail without its other changes: they do test its work.",
}


@click.command()
@parameters.goal
@click.option("--accept", is_flag=True, help="Accept the work as it is, and end the goal.")
@click.argument("why", required=False, default="")
@parameters.as_json
@click.pass_obj
def proof(instance: Instance, goal: str, accept: bool, why: str, as_json: bool) -> None:
    """Show what speaks for a goal's finish: its label, what judges it and was changed, and each run of its checks.

    Exit code 0: it ended proven, checked, with tests of its own, or accepted; 1: any other.
    """
    if why and not accept:
        raise click.UsageError("WHY is for --accept")
    said = ""
    if accept:
        said = send(instance.socket, AcceptRequest(goal, why), within_s=DEADLINE_S)["said"]
    state = goal_state(instance, goal)
    made = _last(instance, state)
    if made is None:
        none = "no finish whose checks passed has been proved yet"
        missing = none if state.spec.checks else "the goal has no checks"
        raise CliError(f"{goal}: there is no proof: {missing}")
    accepted = state.proof.accepted if state.proof else None
    view = made.model_dump(mode="json", include=SHOWN)
    view |= {"goal": goal, "accepted": accepted, "reason": reason_of(state, made) or None}
    good = state.goal.status == "completed" and (made.label in ENDS or bool(accepted))
    text = [[(f"{goal}: {said}", "")]] if accept else lines(state, made)
    show(view, text, as_json=as_json, failed=not good)


def _last(instance: Instance, state: State) -> ProofMade | None:
    if state.proof is None:
        return None
    with open_ledger(instance) as reader:
        row = next(iter(reader.read(state.goal_id, state.proof.seq - 1, 1)), None)
    found = decode(row.body) if row else None
    return found if isinstance(found, ProofMade) else None


def reason_of(state: State, made: ProofMade) -> str:
    """Return why the agent says that the goal needs its changes: at the last refusal, or when the proof was made."""
    return (state.proof.reason if state.proof else "") or made.reason


def lines(state: State, made: ProofMade) -> Iterator[Line]:
    """Yield a proof as a person reads it."""
    accepted = state.proof.accepted if state.proof else None
    yield [(clean(state.goal_id), "bold"), (f"  {clean(state.goal.description)}", "")]
    said = words(made.label, "", accepted)
    yield [("label: ", "bold"), (made.label if said == made.label else f"{made.label}: {said}", "")]
    for what, text in (("why", made.why), ("its reason", reason_of(state, made))):
        if text:
            yield [(f"{what}: ", "bold"), (clean(text), "")]
    if made.taken_away:
        yield [("taken away for the second run:", "bold")]
        yield from ([(f"  {one.kind:8}{clean(one.path)}", "")] for one in made.taken_away)
    yield [("checks:", "bold")]
    for one in made.checks:
        yield [(f"  {clean(one.name)}", "")]
        for moment, run in zip(_MOMENTS, (one.before, one.finish, one.view), strict=True):
            yield [(f"    {moment}: ", "dim"), (_run(run), "")]
    yield from ([(f"  {clean(line)}", "dim")] for line in made.output.splitlines()[-12:])
    if made.without_work:
        yield [(_WITHOUT[made.without_work], "")]
    if made.diff:
        yield [("its change of what judges it:", "bold")]
        styles = {"+": "green", "-": "red"}
        for line in made.diff.splitlines():
            yield [(f"  {clean(line)}", styles.get(line[:1], ""))]
    yield [(SAYS_NOT, "dim")]
    if state.proof and state.proof.asked:
        accept = f"`clew proof {state.goal_id} --accept` ends the goal as it is;"
        yield [(f"You are asked: {accept}", "yellow")]
        yield [(f'`clew feedback {state.goal_id} "…"` lets it go on.', "yellow")]


def _run(run: CheckRun | None) -> str:
    if run is None:
        return "not run"
    ended = {None: "took too long", 0: "passed"}.get(run.exit_code, f"exit code {run.exit_code}")
    counts = (("passed", run.passed), ("failed", run.failed), ("skipped", run.skipped))
    tests = ", ".join(f"{n} {what}" for what, n in counts if n)
    return f"{ended} in {run.seconds:.1f} s{f' ({tests})' if tests else ''}"
