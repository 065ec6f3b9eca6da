"""What is recorded of a prompt, in place of the prompt: how large it is, and what of it was new."""

from typing import Literal

from pydantic import BaseModel, Field

COUNT_MAX = 1 << 53  # the largest count that is accepted: sums of such still fit integers
SERVED_CHARS_MAX = 200
RUNGS_MAX = 16


class Prompt(BaseModel, frozen=True, extra="ignore"):
    """The prompt of a turn: sizes in characters, and the hash of what only a cut may change."""

    # of tools, system, goal, finished work, folded lines
    sha: str = Field(default="", max_length=64)
    cuts: int = Field(default=0, ge=0, le=COUNT_MAX)  # deliberate changes to these in this subtask
    chars: int = Field(default=0, ge=0, le=COUNT_MAX)
    kept: int = Field(default=0, ge=0, le=COUNT_MAX)  # as much as the previous call began with
    ending: int = Field(default=0, ge=0, le=COUNT_MAX)  # the state block
    folded: int = Field(default=0, ge=0, le=COUNT_MAX)  # entries of the transcript that were lines
    window: str = Field(default="full", max_length=20)
    mode: Literal["tools", "json"] = "tools"
    tightness: int = Field(default=0, ge=0, le=16)
    chars_per_token: float = Field(default=4.0, gt=0, le=64)
    model: str = Field(default="", max_length=600)  # and its endpoint
    # what its server says that it runs
    served: str = Field(default="", max_length=SERVED_CHARS_MAX)
    # the richest `response_format` that the server accepts in JSON mode, counted from 0
    rung: int = Field(default=0, ge=0, le=RUNGS_MAX)
