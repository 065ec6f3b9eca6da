"""What the results of checks say, as they stand in a conversation. Pure functions of its entries."""

from clew_shared.text.shell_tests import GOT, SILENT, STILL_IN
from clew_shared.text.shorten import without_middle
from clew_shared.text.tracebacks import located_error
from clew_shared.wire.hello import Entry, Said

LINE_CHARS = 320
"""The longest line of a failure that is said again."""

NOT_YET = "The goal is not reached yet."
"""Begins the note of an agent that had the checks run after a change."""

AS_BEFORE = "It fails as before your change."
"""Follows it where the checks fail with the same last line as before: small models do the same again unless told."""


def same_failure(note: Entry) -> str:
    """Return the last line of the failure that a note says is as before, "" for another note."""
    if isinstance(note, Said) and note.text.startswith(f"{NOT_YET} {AS_BEFORE}"):
        return _last_line(note.text)
    return ""


def shows_what_fails(entry: Entry) -> bool:
    """Return whether an entry is the result of checks: of a `finish` that was not accepted, or after a change."""
    if isinstance(entry, Said):
        return entry.text.startswith(NOT_YET)
    return entry.name == "finish"


def named_failure(note: Entry) -> str:
    """Return the error of Python that a note of checks ends with, or a line that must not be there; "" else."""
    text = note_text(note) if shows_what_fails(note) else ""
    unwanted = _last_line(text) if SILENT in text and STILL_IN in text else ""
    return located_error(text) or unwanted


def wrong_value(note: Entry) -> str:
    """Return which value the check that a note ends with got, and which it expected; "" where it is no such check."""
    text = note_text(note) if shows_what_fails(note) else ""
    why = _last_line(text) if SILENT in text else ""
    return why if why.startswith(GOT) else ""


def note_text(note: Entry) -> str:
    """Return the text of an entry that shows what fails."""
    return note.text if isinstance(note, Said) else note.output


def _last_line(text: str) -> str:
    return without_middle(text.rstrip().rpartition("\n")[2], LINE_CHARS)
