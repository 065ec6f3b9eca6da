"""Makes pages from templates.

Every value that a template prints is cleaned and escaped here, so that no template can forget it: what an agent wrote
is never markup, and neither terminal escapes nor right-to-left marks change how a line looks.
"""

import json
import time
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from clew_daemon.publish.standing import standing
from clew_daemon.reading import actions
from clew_daemon.reading.client import changes_of, command_of
from clew_daemon.reading.goal_list import doing, now_text
from clew_daemon.reading.goal_text import changed_text, shown_action
from clew_daemon.reading.sanitize import clean, counted, short, thousands
from clew_shared.record.moment import iso, local, roughly
from clew_shared.text import words

HERE = Path(__file__).parent
STATIC = HERE / "static"


@cache
def environment() -> Environment:
    """Return the templates."""
    made = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"ago": ago, "clock": clock, "moment": iso, "seconds": seconds}
    made.filters |= {"thousands": thousands, "short": short, "changed": changed_text}
    made.filters |= {"standing": standing, "doing": doing, "now": now}
    made.filters |= {"ending": words.ending, "loop": words.loop, "text": shown_action}
    made.filters |= {"verdict": actions.verdict, "took": actions.took, "place": actions.place}
    made.filters |= {"changes_of": changes_of, "command_of": command_of, "json": json.dumps}
    made.globals |= {"counted": counted}
    return made


def ago(at: float) -> str:
    """Return how long ago a moment was, in its largest unit; "" for none."""
    return roughly(max(0.0, time.time() - at)) if at else ""


def clock(at: float | str) -> str:
    """Return the local time of day of a moment."""
    return local(at).rpartition(" ")[2]


def seconds(at: str) -> float:
    """Return a moment of a view in seconds since 1970."""
    return datetime.fromisoformat(at).timestamp()


def now(goal: Any) -> str:
    """Return in a line what a goal does, what it waits for, or why it stopped."""
    return now_text(goal, time.time())


def _shown(value: Any) -> Any:
    if isinstance(value, Markup) or not isinstance(value, str):
        return value
    return clean(value.replace("\r\n", "\n").expandtabs(4), lines=True)
