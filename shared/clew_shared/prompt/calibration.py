"""How many characters a model's tokens have, measured by its server's own counts. Pure numbers."""

CHARS_PER_TOKEN_MIN, CHARS_PER_TOKEN_MAX = 1.5, 8.0
CALIBRATION_WEIGHT = 0.3


def recalibrated(chars_per_token: float, chars: int, tokens: int, *, measured: bool) -> float:
    """Return the average after one more count; `measured`: it is not a mere estimate so far.

    A count without characters or tokens tells nothing.
    """
    if tokens <= 0 or chars <= 0:
        return chars_per_token
    found = min(max(chars / tokens, CHARS_PER_TOKEN_MIN), CHARS_PER_TOKEN_MAX)
    weight = CALIBRATION_WEIGHT if measured else 1.0
    return chars_per_token + weight * (found - chars_per_token)
