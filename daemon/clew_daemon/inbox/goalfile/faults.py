"""What is wrong in a goal file, each fault with its line, and how a message shows a piece of the file. Pure."""

from dataclasses import dataclass

from clew_shared.text.shorten import in_whole_words


@dataclass(frozen=True)
class GoalFileFault:
    """One thing that is wrong in a goal file; `line` counts from 1, None is the whole file."""

    line: int | None
    message: str

    def __str__(self) -> str:
        return self.message if self.line is None else f"line {self.line}: {self.message}"


class GoalFileError(ValueError):
    """The goal file cannot be used; its text, all errors one a line, is that of NAME.error.txt."""

    def __init__(self, name: str, faults: list[GoalFileFault]) -> None:
        self.name = name
        self.faults = sorted(faults, key=lambda fault: fault.line or 0)
        super().__init__("\n".join([f"{name} cannot be used:", *map(str, self.faults)]))


def cut(text: str) -> str:
    """Return a piece of the file as messages show it."""
    return in_whole_words(text, 60)
