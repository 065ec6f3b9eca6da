"""The label of a finish whose checks have passed: what follows from what was seen, in one word and a reason. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from clew_shared.proof.checks import Count, fewer
from clew_shared.proof.judges import matcher

Label = Literal[
    "proven", "checked", "own_tests", "changed_tests", "changed_tools", "left_running", "fewer_tests",
    "failing_tests", "watches_tests", "unknown",
]  # fmt: skip

WORDS: Mapping[str, str] = {
    "proven": "proven",
    "checked": "checked only",
    "own_tests": "with tests of its own; there were none before",
    "changed_tests": "only with its changes of what judges it",
    "changed_tools": "only with its changes of tools or settings",
    "left_running": "only while something is left running",
    "fewer_tests": "fewer tests ran than before the work",
    "failing_tests": "although a check says that tests failed",
    "watches_tests": "its code looks at how it is tested",
    "unknown": "no proof could be made",
}
"""What people read in place of a label; the only such table."""

ENDS = frozenset(("proven", "checked", "own_tests"))
"""With these a goal ends."""
COVERED = frozenset(("changed_tests", "own_tests"))
"""The labels that a goal file may accept beforehand by `tests`."""
_BEFORE = "the checks passed before the work, too"
_UNKNOWN_BEFORE = "it is not known whether the checks passed before the work, too"


@dataclass(frozen=True, slots=True)
class Run:
    """How one run of a check ended: `exit_code` is None for one that did not run to its end."""

    exit_code: int | None = None
    count: Count | None = None
    seconds: float = 0.0
    output: str = ""

    @property
    def passed(self) -> bool:
        return self.exit_code == 0


Runs = Mapping[str, Run]


@dataclass(frozen=True, slots=True)
class Seen:
    """What was seen at a finish: names of what judges and was changed, the first of each kind.

    `mixed` are sources whose own tests were changed, `within` such as have fewer. `watches` and `odd` say what sources
    do, `programs` decide a check by their exit code, `data` may be what one compares.
    """

    altered: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    mixed: tuple[str, ...] = ()
    within: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    new_tools: tuple[str, ...] = ()
    home: tuple[str, ...] = ()
    git: tuple[str, ...] = ()
    alive: tuple[str, ...] = ()
    watches: tuple[str, ...] = ()
    odd: tuple[str, ...] = ()
    data: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    had_tests: bool = False

    @property
    def files(self) -> tuple[str, ...]:
        """The files that judge and were changed, those that were there before first."""
        return tuple(dict.fromkeys((*self.altered, *self.mixed, *self.within, *self.added)))

    @property
    def outside(self) -> tuple[str, ...]:
        """What was changed that judges and is in no snapshot."""
        home = tuple(one if one.startswith("/") else f"~/{one}" for one in self.home)
        return (*self.tools, *self.new_tools, *home, *self.git)

    @property
    def suspects(self) -> bool:
        """Whether anything that judges was changed: then the checks must pass without it."""
        return bool(self.files or self.outside or self.alive)


@dataclass(frozen=True, slots=True)
class Proof:
    """A label, with the files or names that it is about, and why."""

    label: Label
    files: tuple[str, ...] = ()
    why: str = ""


@dataclass(frozen=True, slots=True)
class Evidence:
    """The runs of the checks: before the work, at the finish, and in the view, None where none was needed.

    `outside_only` and `data` are runs in views in which only what is in no snapshot, or data files too, were taken
    away; None where they were not needed.
    """

    before: Runs = field(default_factory=dict)
    finish: Runs = field(default_factory=dict)
    view: Runs | None = None
    outside_only: Runs | None = None
    data: Runs | None = None


def label(seen: Seen, runs: Evidence) -> Proof:
    """Return the label: first what fails in the view, then what the outputs and the changes say."""
    if runs.view is not None and (failing := failing_run(runs.view)):
        return _of_failing(seen, runs, failing)
    if seen.within:
        return Proof("changed_tests", seen.within, "tests inside of source files have gone")
    last = runs.finish if runs.view is None else runs.view
    return _of_counts(runs, last) or _of_changes(seen, runs)


def failing_run(runs: Runs) -> str:
    """Return the name of the first check that did not pass, "" for none."""
    return next((name for name, run in runs.items() if not run.passed), "")


def needs_outside_only(seen: Seen, view: Runs) -> bool:
    """Return whether it has to be found out which it was: files that were changed, or what is in no snapshot."""
    return bool(failing_run(view) and seen.files and (seen.outside or seen.alive))


def needs_data(seen: Seen, runs: Evidence) -> bool:
    """Return whether it has to be found out if data files decide: all else speaks for the work."""
    return bool(seen.data) and label(seen, runs).label == "proven"


def by_the_goal(
    found: Proof, seen: Seen, kept: Evidence, may_change: tuple[str, ...]
) -> Proof | None:
    """Return what a goal's `tests:` makes of the label `changed_tests`.

    `found` itself where the goal accepts it; another label for what `tests:` never covers; None where the patterns do
    not cover all that the checks need. `kept` has the runs of a view in which what may change was left as it is.
    """
    assert kept.view is not None  # noqa: S101 - that is what was run
    may = matcher(may_change)
    if failing_run(kept.view) or not all(map(may, seen.within)):
        return None
    rest = replace(seen, altered=(), added=(), mixed=(), within=())
    other = label(rest, kept)
    return found if other.label in (*ENDS, "fewer_tests") else other


def _of_failing(seen: Seen, runs: Evidence, failing: str) -> Proof:
    assert runs.view is not None  # noqa: S101 - asked before
    run = runs.view[failing]
    if run.exit_code is None:
        took = runs.finish.get(failing, Run()).seconds
        why = f"{failing} took {took:.1f} s at the finish, and was not done after {run.seconds:.1f} s in the view"
        return Proof("unknown", (), why)
    why = f"check `{failing}` fails without it"
    others = runs.outside_only is not None and failing_run(runs.outside_only)
    if seen.files and not others:
        had = seen.had_tests or any(one.count and one.count.ran for one in runs.before.values())
        ran = run.count is not None and run.count.ran > 0
        if not (seen.altered or seen.mixed or seen.within or had or ran):
            return Proof("own_tests", seen.added, "there was no test before the work")
        return Proof("changed_tests", seen.files, why)
    if seen.outside:
        return Proof("changed_tools", seen.outside, why)
    if seen.alive:
        return Proof("left_running", seen.alive, why)
    why = f"{failing} fails in the view, where nothing that judges is another"
    return Proof("unknown", (), why)


def _of_counts(runs: Evidence, last: Runs) -> Proof | None:
    for name, run in [*runs.finish.items(), *last.items()]:
        if run.count and run.count.failed:
            return Proof("failing_tests", (), f"{name}: {run.count.failed} tests failed")
    for name, run in last.items():
        before = runs.before.get(name)
        if short := fewer(before.count if before else None, run.count):
            return Proof("fewer_tests", (), f"{name}: {short}")
    return None


def _of_changes(seen: Seen, runs: Evidence) -> Proof:
    if seen.tools:
        return Proof("changed_tools", seen.tools, "installed tools are other ones than before")
    if seen.watches:
        return Proof("watches_tests", _names(seen.watches), "; ".join(seen.watches[:5]))
    files, why = _doubt(seen, runs)
    return Proof("checked", files, why) if why else Proof("proven")


def _doubt(seen: Seen, runs: Evidence) -> tuple[tuple[str, ...], str]:
    """Return why a check that passes says little of the work, and the files that this is about; "" for nothing."""
    if runs.data and failing_run(runs.data):
        return seen.data, f"without its change of {', '.join(seen.data[:5])} the checks fail"
    if seen.programs:
        return seen.programs, f"{seen.programs[0]}, which it wrote, decides by its own exit code"
    if seen.odd:
        return _names(seen.odd), "; ".join(seen.odd[:5])
    if not runs.before.keys() >= runs.finish.keys():
        return (), _UNKNOWN_BEFORE
    return (seen.added, _BEFORE) if all(run.passed for run in runs.before.values()) else ((), "")


def _names(lines: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(line.partition(": ")[0] for line in lines)


def words(name: str, why: str = "", accepted: str | None = None) -> str:
    """Return a label as people read it, with its reason where the label alone says little."""
    said = WORDS.get(name, name)
    told = f"{said}: {why}" if why and name in ("checked", "unknown") else said
    by = {"goal": "; accepted by the goal file", "person": "; accepted by a person"}
    return told + by.get(accepted or "", "")
