"""`clew proof`: what a goal's label says and does not say, and the word of a person who accepts it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from clew_daemon.cli import parameters
from clew_daemon.control.requests import AcceptRequest
from clew_daemon.reading.client import send
from clew_daemon.reading.errors import CliError
from clew_daemon.reading.output import Line, columns, print_json, print_lines
from clew_daemon.reading.queries import goal_id, goal_state, open_ledger
from clew_daemon.reading.sanitize import clean
from clew_shared.exit_codes import ExitCode
from clew_shared.proof.label import ENDS, words

if TYPE_CHECKING:
    from clew_daemon.reading.instance import Instance
    from clew_shared.record.proof_events import CheckRun, ProofMade
    from clew_shared.record.state import State

DEADLINE_S = 180.0
SAYS_NOT = (
    "It does not say that the tests are good ones, nor that the code does what was meant where no test looks. "
    "A check of your own that is not in the workspace says more."
)
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
    name = goal_id(instance, goal)
    if why and not accept:
        raise click.UsageError("WHY is for --accept")
    if accept:
        said = send(instance.socket, AcceptRequest(name, why), within_s=DEADLINE_S)["said"]
        if not as_json:
            print_lines([[(f"{name}: {said}", "")]])
    state = goal_state(instance, name)
    made = _last(instance, name)
    if made is None:
        raise CliError(f"{name}: there is no proof: {_why_none(state)}")
    view = proof_json(state, made)
    if as_json:
        print_json({"goal": name, **view})
    elif not accept:
        print_lines(lines(state, made))
    good = state.goal.status == "completed" and (made.label in ENDS or bool(view["accepted"]))
    if not good:
        raise click.exceptions.Exit(ExitCode.FAILED)


def _why_none(state: State) -> str:
    if not state.spec.checks:
        return "the goal has no checks"
    return "no finish whose checks passed has been proved yet"


def _last(instance: Instance, name: str) -> ProofMade | None:
    """Return the last proof on record."""
    from clew_shared.record.codec import decode
    from clew_shared.record.proof_events import ProofMade

    seq = made.seq if (made := goal_state(instance, name).proof) else 0
    if not seq:
        return None
    with open_ledger(instance) as reader:
        row = next(iter(reader.read(name, seq - 1, 1)), None)
    found = decode(row.body) if row else None
    return found if isinstance(found, ProofMade) else None


def proof_json(state: State, made: ProofMade) -> dict[str, Any]:
    """Return a proof in full, as JSON."""
    accepted = state.proof.accepted if state.proof else None
    shown = made.model_dump(
        mode="json",
        include={
            "label",
            "files",
            "why",
            "seconds",
            "taken_away",
            "checks",
            "diff",
            "without_work",
        },
    )
    return {**shown, "accepted": accepted, "reason": made.reason or None}


def lines(state: State, made: ProofMade) -> list[Line]:
    """Return a proof as a person reads it."""
    accepted = state.proof.accepted if state.proof else None
    found: list[Line] = [
        [(clean(state.goal_id), "bold"), (f"  {clean(state.goal.description)}", "")],
        [("label: ", "bold"), (clean(words(made.label, "", accepted)), "")],
    ]
    found += [[("why: ", "bold"), (clean(made.why), "")]] if made.why else []
    found += [[("its reason: ", "bold"), (clean(made.reason), "")]] if made.reason else []
    if made.taken_away:
        found.append([("taken away for the second run:", "bold")])
        found += [[(f"  {one.kind:8}{clean(one.path)}", "")] for one in made.taken_away]
    found.append([("checks:", "bold")])
    head: Line = [
        (f"  {title}", "dim")
        for title in ("NAME", "BEFORE", "AT THE FINISH", "WITHOUT ITS CHANGES")
    ]
    rows = [
        [
            (f"  {clean(one.name)}", ""),
            *((f"  {_run(run)}", "") for run in (one.before, one.finish, one.view)),
        ]
        for one in made.checks
    ]
    found += columns([head, *rows])
    found += [[(f"  {clean(line)}", "dim")] for line in made.output.splitlines()[-12:]]
    found += [[(_WITHOUT[made.without_work], "")]] if made.without_work else []
    if made.diff:
        found.append([("its change of what judges it:", "bold")])
        found += [[(f"  {clean(line)}", _style(line))] for line in made.diff.splitlines()]
    found.append([(SAYS_NOT, "dim")])
    if state.proof and state.proof.asked:
        name = state.goal_id
        found.append(
            [(f"You are asked: `clew proof {name} --accept` ends the goal as it is;", "yellow")]
        )
        found.append([(f'`clew feedback {name} "…"` lets it go on.', "yellow")])
    return found


def _style(line: str) -> str:
    return {"+": "green", "-": "red"}.get(line[:1], "")


def _run(run: CheckRun | None) -> str:
    """Return how one run of a check ended: `passed, 3 tests`, `exit code 1, 2 of 3 tests failed`."""
    if run is None:
        return "not run"
    ended = {None: "took too long", 0: "passed"}.get(run.exit_code, f"exit code {run.exit_code}")
    if run.passed is None:
        return f"{ended} ({run.seconds:.1f} s)"
    skipped = f", {run.skipped} skipped" if run.skipped else ""
    failed = f", {run.failed} failed" if run.failed else ""
    return f"{ended}: {run.passed} tests passed{failed}{skipped} ({run.seconds:.1f} s)"
