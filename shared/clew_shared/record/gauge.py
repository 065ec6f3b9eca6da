"""What a failing check measures: the numbers in the last line that has any ("3 failed, 17 passed"). Pure.

No word says which number is better. A series has a trend as long as some number reaches a new extreme.
"""

from __future__ import annotations

import re
from typing import Final

from clew_shared.record.progress import normalise
from clew_shared.record.signature import digest

READINGS_MAX: Final = 8
LINE_CHARS: Final = 400
SCANNED_CHARS: Final = 4_000

_NUMBER: Final = re.compile(r"(?<![\w.])\d{1,9}(?:\.\d{1,9})?(?![\w]|\.\d)|(?<==)\d{1,9}")
_FAILURES: Final = re.compile(
    r"\b\d+ (?:\w+ )?(?:failed|failing|failures?|errors?|problems?|warnings?|violations?)\b"
    r"|\b(?:failed|failing|failures|errors|problems)\s*[=:]\s*\d+",
    re.IGNORECASE,
)
_FAILURE: Final = re.compile(r"fail|error|broken|wrong|problem|violation|warning", re.IGNORECASE)
_WORD: Final = re.compile(r"[^\W\d_]{2,}")


def gauge_of(output: str | None, *, failed: bool) -> tuple[str, tuple[float, ...]]:
    """Return a digest of the last line with words and numbers, without its numbers, and the numbers.

    A line that counts failures is preferred, since some reports go on after it. What succeeds, such as a tool that runs
    tests, measures only if the line names failures.
    """
    lines = normalise((output or "")[-SCANNED_CHARS:]).splitlines()[::-1]
    for line in [line for line in lines if _FAILURES.search(line)] or lines:
        numbers = _NUMBER.findall(line)
        if 0 < len(numbers) <= READINGS_MAX and len(line) <= LINE_CHARS and _WORD.search(line):
            if not failed and not _FAILURE.search(line):
                return "", ()
            return digest(_NUMBER.sub("#", line)), tuple(map(float, numbers))
    return "", ()
