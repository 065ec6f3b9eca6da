"""What is recorded of a prompt, in place of the prompt: how large it is, and what of it was new."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

COUNT_MAX = 1 << 53
"""The largest count that is accepted: sums of such counts still fit the readers' integers."""


class Prompt(BaseModel):
    """The prompt of a turn: sizes in characters, and the hash of what only a cut may change.

    `sha` covers tools, system, goal, finished work and folded lines; `cuts` counts deliberate changes to them in
    this subtask; `kept` is how much of the previous call this one began with; `ending` is the size of the state
    block. The first `folded` entries of the transcript were lines; a new epoch continues with the rest.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")
    sha: str = Field(default="", max_length=64)
    cuts: int = Field(default=0, ge=0, le=COUNT_MAX)
    chars: int = Field(default=0, ge=0, le=COUNT_MAX)
    kept: int = Field(default=0, ge=0, le=COUNT_MAX)
    ending: int = Field(default=0, ge=0, le=COUNT_MAX)
    folded: int = Field(default=0, ge=0, le=COUNT_MAX)
    window: str = Field(default="full", max_length=20)
    mode: Literal["tools", "json"] = "tools"
    tightness: int = Field(default=0, ge=0, le=16)
    chars_per_token: float = Field(default=4.0, gt=0, le=64)
