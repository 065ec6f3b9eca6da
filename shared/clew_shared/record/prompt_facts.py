"""What is recorded of a prompt, in place of the prompt: how large it is, and what of it was new."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

COUNT_MAX = 1 << 53
"""The largest count that is accepted: sums of such counts still fit the readers' integers."""


SERVED_CHARS_MAX = 200
RUNGS_MAX = 16


class CallForms(BaseModel):
    """How a model answered when it was offered native tool calls, as records of an earlier version have it.

    `native`: calls that could be read, `as_text`: calls written as text, `malformed`: native calls whose arguments
    are no JSON, `absent`: no call at all, `refused`: the server accepts no tools.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")
    native: int = Field(default=0, ge=0, le=COUNT_MAX)
    as_text: int = Field(default=0, ge=0, le=COUNT_MAX)
    malformed: int = Field(default=0, ge=0, le=COUNT_MAX)
    absent: int = Field(default=0, ge=0, le=COUNT_MAX)
    refused: int = Field(default=0, ge=0, le=COUNT_MAX)


class Prompt(BaseModel):
    """The prompt of a turn: sizes in characters, and the hash of what only a cut may change.

    `sha` covers tools, system, goal, finished work and folded lines; `cuts` counts deliberate changes to them in
    this subtask; `kept` is how much of the previous call this one began with; `ending` is the size of the state
    block. The first `folded` entries of the transcript were lines; a new epoch continues with the rest.

    `model` is the model that was asked and its endpoint, "" in old records; `served` is what its server says that it
    runs. `rung` is the richest `response_format` that the server accepts in JSON mode, counted from 0.
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
    model: str = Field(default="", max_length=600)
    served: str = Field(default="", max_length=SERVED_CHARS_MAX)
    rung: int = Field(default=0, ge=0, le=RUNGS_MAX)
    forms: CallForms = CallForms()
