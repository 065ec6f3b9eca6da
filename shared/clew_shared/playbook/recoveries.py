"""What a run teaches that overcame a failure: the step that failed, what fixed it, what then went well.

These are surer than habits: the run itself shows what happens without them.
"""

from collections.abc import Callable, Sequence

from clew_shared.playbook.patterns import Finder, Pattern
from clew_shared.playbook.steps import Kind, Step


def _overcome(
    fails: Callable[[Step], bool],
    mends: Callable[[Step, Step], bool],
    again: Callable[[Step, Step], bool],
) -> Finder:
    """Find a failing step, a later one that fixes it, and a still later one that goes well instead."""

    def find(done: Sequence[Step]) -> Sequence[Step]:
        for at, failed in enumerate(done):
            if not failed.failed or not fails(failed):
                continue
            mended = -1
            for place in range(at + 1, len(done)):
                later = done[place]
                if later.failed:
                    continue
                if mended > 0 and again(failed, later):
                    return [failed, done[mended], later]
                if mends(failed, later):
                    mended = place
        return ()

    return find


def _is(*kinds: Kind) -> Callable[[Step], bool]:
    return lambda step: step.kind in kinds


def _then(*kinds: Kind) -> Callable[[Step, Step], bool]:
    return lambda _, later: later.kind in kinds


def _same_file(kind: Kind) -> Callable[[Step, Step], bool]:
    return lambda failed, later: later.kind is kind and later.target == failed.target


def _same_step(failed: Step, later: Step) -> bool:
    return later.shown == failed.shown


def _same_test(failed: Step, later: Step) -> bool:
    return later.kind is Kind.TEST and (later.shown == failed.shown or not later.target)


RECOVERIES: tuple[Pattern, ...] = (
    Pattern(
        "shell_commands",
        0.9,
        "When a command lacks a dependency, install it and repeat the same command",
        _overcome(lambda step: step.is_shell, _then(Kind.INSTALL), _same_step),
    ),
    Pattern(
        "file_operations",
        0.9,
        "When an edit fails, read the file again before the next edit",
        _overcome(_is(Kind.WRITE), _same_file(Kind.READ), _same_file(Kind.WRITE)),
    ),
    Pattern(
        "testing",
        0.87,
        "When a test fails, change the code and run the test again",
        _overcome(_is(Kind.TEST), _then(Kind.WRITE), _same_test),
    ),
    Pattern(
        "code_navigation",
        0.85,
        "When a file is not where it was looked for, list or search for it before reading",
        _overcome(
            _is(Kind.READ),
            _then(Kind.LIST, Kind.SEARCH),
            lambda failed, later: later.kind is Kind.READ and later.target != failed.target,
        ),
    ),
    Pattern(
        "error_handling",
        0.8,
        "When a program fails, fix the cause and run the same command again to see that it is gone",
        _overcome(_is(Kind.RUN, Kind.BUILD), _then(Kind.WRITE), _same_step),
    ),
    Pattern(
        "error_handling",
        0.7,
        "When a tool refuses a call, change what its message names before calling it again",
        _overcome(
            lambda step: step.kind is Kind.OTHER and not step.is_shell,
            lambda failed, later: later.tool != failed.tool,
            lambda failed, later: later.tool == failed.tool,
        ),
    ),
)
