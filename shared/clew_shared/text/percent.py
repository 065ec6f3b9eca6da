"""A share as people read it. Pure."""


def percent(share: float) -> str:
    """Return a share of 1 as a percentage; only the whole is 100%."""
    return "100%" if share >= 1 else f"{min(round(share * 100), 99)}%"
