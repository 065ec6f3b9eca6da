"""The label of a finish whose checks have passed: what follows from what was seen, in one word and a reason. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from clew_shared.proof.judges import matcher
from clew_shared.proof.runners import Count, fewer

Label = Literal[
    "proven", "checked", "own_tests", "changed_tests", "changed_tools", "left_running", "fewer_tests",
    "failing_tests", "watches_tests", "unknown",
]  # fmt: skip
WORDS: Mapping[str, str] = {
    "proven": "proven",
    "checked": "checked only",
    "own_tests": "with tests of its own; there were none before",
    "changed_tests": "only with its own changes to what tests it",
    "changed_tools": "only with its own changes to tools or settings",
    "left_running": "only while something is left running",
    "fewer_tests": "fewer tests ran than before the work",
    "failing_tests": "although a check says that tests failed",
    "watches_tests": "its code looks at how it is tested",
    "unknown": "no proof could be made",
}
"""What people read in place of a label; the only such table."""
ENDS = frozenset(("proven", "checked", "own_tests"))
"""With these a goal ends."""
WITHOUT_WORK: Mapping[str, str] = {
    "pass": "Without the rest of its work the checks pass, too: they do not show that the goal is met.",
    "fail": "Without the rest of its work the checks fail: they test it. Whether rightly is for you to judge.",
}
WITHOUT_WORK_S = 60.0
"""Where the checks took longer in the view, they are not run once more only to help a person decide."""


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
    do, and what decides a check by its exit code; `data` may be what one compares.
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


@dataclass(frozen=True, slots=True)
class Proof:
    """A label, with the files or names that it is about, and why."""

    label: Label
    files: tuple[str, ...] = ()
    why: str = ""


Take = Literal["judges", "tools", "data", "kept", "work"]
"""What a view takes away: all that judges (`judges`), of that only what is in no snapshot (`tools`), data files too
(`data`), all but what the goal allows to change (`kept`), or the work in place of what judges it (`work`)."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """The runs of the checks: before the work, at the finish, and in the views that were needed."""

    before: Runs = field(default_factory=dict)
    finish: Runs = field(default_factory=dict)
    views: Mapping[Take, Runs] = field(default_factory=dict)

    def failing(self, take: Take) -> str:
        """Return the name of the first check that did not pass in a view, "" for none."""
        return next((name for name, run in self.views.get(take, {}).items() if not run.passed), "")


@dataclass(frozen=True, slots=True)
class Allowed:
    """What the goal itself allows: a person's own `steps`, changes of some files; with `setup` a view is always due."""

    may_change: tuple[str, ...] = ()
    steps: bool = False
    setup: bool = False


def next_view(seen: Seen, runs: Evidence, allowed: Allowed) -> Take | None:
    """Return the view in which the checks have to run next, None where all that the label needs is known."""
    found, last = label(seen, runs), verdict(seen, runs, allowed)[0]
    took = sum(run.seconds for run in runs.views.get("judges", {}).values())
    needed: dict[Take, object] = {
        "judges": seen.files or seen.outside or seen.alive or allowed.setup,
        "tools": runs.failing("judges") and seen.files and (seen.outside or seen.alive),
        "data": seen.data and found.label == "proven",
        "kept": found.label == "changed_tests" and allowed.may_change and not allowed.steps,
        "work": last.label in ("changed_tests", "own_tests") and took <= WITHOUT_WORK_S,
    }
    return next((take for take, due in needed.items() if due and take not in runs.views), None)


def verdict(seen: Seen, runs: Evidence, allowed: Allowed) -> tuple[Proof, bool]:
    """Return the label, and whether the goal itself accepts it: it never does what is outside of the tests."""
    found = label(seen, runs)
    if found.label in ENDS or allowed.steps:
        return found, found.label not in ENDS
    covered = all(map(matcher(allowed.may_change), seen.within)) and not runs.failing("kept")
    if "kept" not in runs.views or not covered:
        return found, False
    rest = replace(seen, altered=(), added=(), mixed=(), within=())
    other = label(rest, replace(runs, views={"judges": runs.views["kept"]}))
    accepts = other.label in (*ENDS, "fewer_tests")
    return found if accepts else other, accepts


def label(seen: Seen, runs: Evidence) -> Proof:
    """Return the label: first what fails in the view, then what the outputs and the changes say."""
    if failing := runs.failing("judges"):
        return _of_failing(seen, runs, failing)
    if seen.within:
        return Proof("changed_tests", seen.within, "tests inside of source files have gone")
    return next(_objections(seen, runs), Proof("proven"))


def _of_failing(seen: Seen, runs: Evidence, failing: str) -> Proof:
    run, why = runs.views["judges"][failing], f"check `{failing}` fails without it"
    if run.exit_code is None:
        took = runs.finish.get(failing, Run()).seconds
        late = f"was not done after {run.seconds:.1f} s in the view"
        return Proof("unknown", (), f"{failing} took {took:.1f} s at the finish, and {late}")
    if seen.files and not runs.failing("tools"):
        counts = (one.count for one in (*runs.before.values(), run))
        had = seen.had_tests or any(count and count.ran for count in counts)
        if not (seen.altered or seen.mixed or seen.within or had):
            return Proof("own_tests", seen.added, "there was no test before the work")
        return Proof("changed_tests", seen.files, why)
    if seen.outside:
        return Proof("changed_tools", seen.outside, why)
    if seen.alive:
        return Proof("left_running", seen.alive, why)
    return Proof("unknown", (), f"{failing} fails in the view, where nothing that judges differs")


def _objections(seen: Seen, runs: Evidence) -> Iterator[Proof]:
    """Yield what speaks against a proof though the checks pass in the view, the weightiest first."""
    last = runs.views.get("judges", runs.finish)
    for name, run in [*runs.finish.items(), *last.items()]:
        if run.count and run.count.failed:
            yield Proof("failing_tests", (), f"{name}: {run.count.failed} tests failed")
    for name, run in last.items():
        if short := fewer(runs.before.get(name, Run()).count, run.count):
            yield Proof("fewer_tests", (), f"{name}: {short}")
    if seen.tools:
        yield Proof("changed_tools", seen.tools, "installed tools are other ones than before")
    if seen.watches:
        yield Proof("watches_tests", _names(seen.watches), "; ".join(seen.watches[:5]))
    if runs.failing("data"):
        why = f"without its change of {', '.join(seen.data[:5])} the checks fail"
        yield Proof("checked", seen.data, why)
    if seen.odd:
        yield Proof("checked", _names(seen.odd), "; ".join(seen.odd[:5]))
    why, known = "the checks passed before the work, too", runs.before.keys() >= runs.finish.keys()
    if not known or all(run.passed for run in runs.before.values()):
        yield Proof("checked", seen.added, why if known else f"it is not known whether {why}")


def _names(lines: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(line.partition(": ")[0] for line in lines)


def words(name: str, why: str = "", accepted: str | None = None) -> str:
    """Return a label as people read it, with its reason where the label alone says little."""
    told = WORDS.get(name, name) + (f": {why}" if why and name in ("checked", "unknown") else "")
    by = {"goal": "; accepted by the goal file", "person": "; accepted by a person"}
    return told + by.get(accepted or "", "")
