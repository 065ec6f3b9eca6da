"""What the output of an action shows beside its outcome, for the rules about repetition (docs/loops.md)."""

from __future__ import annotations

from pydantic import BaseModel


class Evidence(BaseModel, frozen=True, extra="ignore"):
    """What an output shows beside its outcome; each part is empty where it does not apply.

    `facts` is the sketch of a read (`record/facts.py`), `receipt` the digest of a short answer without its fresh `ids`
    (`record/receipts.py`), `gauge` the line in which a failing check measures `readings` (`record/gauge.py`).
    """

    facts: str = ""
    receipt: str = ""
    ids: tuple[str, ...] = ()
    gauge: str = ""
    readings: tuple[float, ...] = ()
