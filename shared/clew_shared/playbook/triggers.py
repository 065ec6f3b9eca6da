"""What the rules of the reflector look for in a run: each trigger finds the steps that show it, or none.

A step that failed is part of no trigger, unless the failure is what the trigger is about. Order counts. Nothing
here knows the outcome of the run or the text of a lesson.
"""

import re
from collections.abc import Callable, Sequence
from pathlib import PurePosixPath

from clew_shared.playbook.steps import Kind, ToolStep

Trigger = Callable[[Sequence[ToolStep]], Sequence[ToolStep]]
Matcher = Callable[[ToolStep], bool]
Relation = Callable[[ToolStep, ToolStep], bool]
"""Whether a later step (the second argument) belongs to the first one of its sequence."""


def of_kind(*kinds: Kind) -> Matcher:
    return lambda step: step.kind in kinds


def then_kind(*kinds: Kind) -> Relation:
    return lambda _, later: later.kind in kinds


def same_target(kind: Kind) -> Relation:
    return lambda first, later: later.kind is kind and later.target == first.target


def other_target(kind: Kind) -> Relation:
    return lambda first, later: later.kind is kind and later.target != first.target


def repeated(first: ToolStep, later: ToolStep) -> bool:
    return later.shown == first.shown


def same_test(first: ToolStep, later: ToolStep) -> bool:
    return later.kind is Kind.TEST and (later.shown == first.shown or not later.target)


def same_tool(first: ToolStep, later: ToolStep) -> bool:
    return later.tool == first.tool


def other_tool(first: ToolStep, later: ToolStep) -> bool:
    return later.tool != first.tool


def read_inside(first: ToolStep, later: ToolStep) -> bool:
    """Return whether the later step reads what may lie in the listed folder; an unknown path may."""
    if later.kind is not Kind.READ:
        return False
    folder, path = PurePosixPath(first.target or "."), PurePosixPath(later.target or ".")
    is_unknown = (
        str(folder) == "." or not later.target or folder.is_absolute() != path.is_absolute()
    )
    return is_unknown or path.is_relative_to(folder)


def write_same_path(first: ToolStep, later: ToolStep) -> bool:
    """Return whether the later step writes what may be the same file; an unknown path may."""
    if later.kind is not Kind.WRITE:
        return False
    is_unknown = not first.target or not later.target
    return is_unknown or PurePosixPath(first.target) == PurePosixPath(later.target)


def in_order(first: Matcher, *relations: Relation, failing: bool = False) -> Trigger:
    """Find a first step (a failed one if `failing`), the steps on the way, and the one that completes them.

    Of several steps on the way between the first and the last one, the latest counts.
    """
    *between, last = relations

    def find(done: Sequence[ToolStep]) -> Sequence[ToolStep]:
        for at, step in enumerate(done):
            if step.failed is not failing or not first(step):
                continue
            found: dict[int, ToolStep] = {}
            for later in done[at + 1 :]:
                if later.failed:
                    continue
                if len(found) == len(between) and last(step, later):
                    return [step, *found.values(), later]
                found |= {n: later for n, fits in enumerate(between) if fits(step, later)}
        return ()

    return find


def related_reads(done: Sequence[ToolStep]) -> Sequence[ToolStep]:
    """Find at least three different files of one folder that were read."""
    folders: dict[PurePosixPath, dict[str, ToolStep]] = {}
    for step in done:
        if step.kind is Kind.READ and step.target and not step.failed:
            folder = PurePosixPath(step.target).parent
            folders.setdefault(folder, {}).setdefault(step.target, step)
    largest = max(folders.values(), key=len, default={})
    return list(largest.values()) if len(largest) >= 3 else ()


def different_searches(done: Sequence[ToolStep]) -> Sequence[ToolStep]:
    """Find at least two searches for different things."""
    found = {step.target: step for step in done if step.kind is Kind.SEARCH and not step.failed}
    return list(found.values()) if len(found) >= 2 else ()


def wrote_test_first(done: Sequence[ToolStep]) -> Sequence[ToolStep]:
    """Find a test that was written before any code, the first code written, and the test run after it."""
    writes = [step for step in done if step.kind is Kind.WRITE]
    code = next((step for step in writes if not step.touches_test), None)
    if code is None or code.failed or not code.target:
        return ()
    at = next(place for place, step in enumerate(done) if step is code)
    test = next((one for one in writes if one.touches_test and not one.failed), None)
    run = next((step for step in done[at + 1 :] if step.kind is Kind.TEST), None)
    if test is None or run is None or not any(step is test for step in done[:at]):
        return ()
    return [test, code, run]


def blamed(matches: Matcher, output: str = "", *, listed: bool | None = None) -> Trigger:
    """Find the failed step of a run that ended in an error, by its kind and by a pattern in its output.

    `listed` asks whether anything was listed before it.
    """
    pattern = re.compile(output, re.IGNORECASE)

    def find(done: Sequence[ToolStep]) -> Sequence[ToolStep]:
        step = _to_blame(done)
        if step is None or not matches(step) or not pattern.search(step.output):
            return ()
        was_listed = any(one.kind is Kind.LIST and one.call < step.call for one in done)
        return (step,) if listed in {None, was_listed} else ()

    return find


def _to_blame(done: Sequence[ToolStep]) -> ToolStep | None:
    """Return the last step that failed and did not succeed later; the last of all where no result is known."""
    if not any(step.is_known for step in done):
        return done[-1] if done else None
    succeeded = set[tuple[str, str]]()
    for step in reversed(done):
        if not step.failed:
            succeeded.add((step.shown, step.target))
        elif (step.shown, step.target) not in succeeded:
            return step
    return None
