"""What is so now of goals and the daemon, what of it a person should know, and the addresses that messages go to."""

import hashlib
import html
import json
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, cast

from clew_daemon.host.keys import KeyFileError, read_secret
from clew_daemon.reading.client import Address, NoAnswer, NoDaemon, call
from clew_daemon.reading.errors import TO_START, CliError
from clew_daemon.reading.instance import Instance
from clew_daemon.reading.sanitize import clean
from clew_daemon.record.goal_status import answer, status_view
from clew_daemon.record.goal_view import GoalView, after_failure, standing
from clew_daemon.record.store import load_listed, load_state
from clew_shared.config.tables import NoticeKind, NotifySettings
from clew_shared.exit_codes import ExitCode
from clew_shared.ledger.reader import EventRow, Reader
from clew_shared.record import events as ev
from clew_shared.record.codec import decode, outline
from clew_shared.record.model import GoalStatus
from clew_shared.record.state import State
from clew_shared.text.redact import hide, redact
from clew_shared.text.shorten import beginning
from clew_shared.text.words import passed_before

SIZE_MAX = 1 << 16
DESKTOP_S = 5.0
Health = Mapping[str, Any]  # the answer to `health`: how the ledger is, and how long commits took
DESKTOP = "desktop"
_SCHEME = re.compile(r"([a-z][a-z0-9+.-]{0,19})://", re.IGNORECASE)


class ChannelError(CliError):
    """A channel cannot be used as it is configured; the message shows no secret."""

    def __init__(self, message: str) -> None:
        super().__init__(message, ExitCode.CONFIGURATION)


class UndeliveredError(Exception):
    """A delivery failed, and is tried again later; the message shows no secret."""


class Notice(NamedTuple):
    """A message; `goal` is "" for one about the daemon."""

    kind: NoticeKind
    title: str
    body: str
    goal: str = ""


class Sender(NamedTuple):
    """What sends to one address; it raises UndeliveredError. `label` is what people may see of the address."""

    key: str
    label: str
    send: Callable[[Notice], None]


def senders(notify: NotifySettings, env: Mapping[str, str], folder: Path) -> list[Sender]:
    """Return what sends to the addresses of the config, which is in `folder`; raises ChannelError."""
    found = []
    if notify.urls_file is not None:
        found += _by_apprise(folder / Path(notify.urls_file).expanduser())
    bus = Path(env.get("XDG_RUNTIME_DIR") or "/nonexistent") / "bus"
    has_bus = bool(env.get("DBUS_SESSION_BUS_ADDRESS")) or bus.exists()
    if notify.desktop and has_bus and shutil.which("notify-send", path=env.get("PATH")):
        found.append(Sender(DESKTOP, DESKTOP, _send_to_desktop))
    return found


def _by_apprise(path: Path) -> list[Sender]:
    """Return what sends to the URLs of a file, one a line; `#` begins a comment line."""
    import apprise

    apprise.logger.disabled = True  # what it logs may hold secrets
    try:
        text = read_secret(path, "file", SIZE_MAX).decode()
    except KeyFileError as error:
        raise ChannelError(f"[notify] urls_file: {error}") from None
    except UnicodeDecodeError:
        raise ChannelError(f"[notify] urls_file: {path} is not UTF-8") from None
    found, wrong = [], []
    for number, url in enumerate(map(str.strip, text.splitlines()), 1):
        if not url or url.startswith("#"):
            continue
        hide([url])
        scheme = _SCHEME.match(url)
        label = f"line {number} ({scheme[0].lower() if scheme else 'no scheme'})"
        key = hashlib.sha256(url.encode()).hexdigest()[:16]  # others may be added before it
        target = apprise.Apprise()
        if not target.add(url):
            wrong.append(label)
        found.append(Sender(key, label, partial(_send_by_apprise, target.notify)))
    if wrong:
        raise ChannelError(
            f"[notify] urls_file: {path}: {', '.join(wrong)}: not a URL that apprise can use; "
            "its documentation lists them: https://github.com/caronc/apprise/wiki"
        )
    return found


def _send_by_apprise(notify: Callable[..., Any], notice: Notice) -> None:
    try:
        is_sent = notify(title=notice.title, body=notice.body, body_format="text")
    except Exception as error:  # noqa: BLE001 - of a plug-in; its text may hold secrets
        raise UndeliveredError(f"the plug-in failed: {type(error).__name__}") from None
    if not is_sent:
        raise UndeliveredError("the service cannot be reached, or did not accept it")


def _send_to_desktop(notice: Notice) -> None:
    urgency = "normal" if notice.kind == "completed" else "critical"
    body = html.escape(notice.body, quote=False)  # desktops show markup
    command = ["notify-send", "--app-name=clew", f"--urgency={urgency}", "--", notice.title, body]
    nothing = subprocess.DEVNULL
    try:
        subprocess.run(
            command, stdin=nothing, stdout=nothing, stderr=nothing, timeout=DESKTOP_S, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise UndeliveredError(f"notify-send: {type(error).__name__}") from None


TITLE_CHARS, TEXT_CHARS = 120, 2_000
ANSWER_S = 5.0
DOWN_S = 10.0  # how long a daemon may be gone, as for a restart, before a message says so
LONG_WAIT_S = 3600.0
DAEMON = "daemon"  # the topic of the condition that the daemon runs, or doesn't
BEFORE_BLOCK = 200  # events before a block are searched for the death of a worker
_TITLES: dict[NoticeKind, str] = {
    "blocked": "needs you",
    "gave_up": "was stopped: its worker keeps dying",
    "failed": "failed",
    "waiting_long": "has been waiting for over an hour",
}
_TROUBLE = {
    "full": ("clew: the disk is full", "Nothing is accepted or judged until there is space."),
    "failed": ("clew: the ledger cannot be written", "The daemon stops: see `clew logs`."),
}


def of_block(state: State, *, died: bool) -> Notice:
    """Return the message about a goal that is blocked; `died`: because its worker kept dying."""
    body = [beginning(state.question, TEXT_CHARS) or state.reason]
    if "`clew " not in state.question:
        said = "when you have fixed the cause" if died else "answer with"
        more = f"more: clew {'history' if died else 'status'} {state.goal_id}"
        body += [f"{said}: {answer(state)}", more]
    return _of_goal("gave_up" if died else "blocked", state, body)


def of_end(state: State, end: ev.GoalEnded) -> Notice | None:
    """Return the message about an end of a goal; None where a person cancelled it."""
    said = beginning(end.reason or end.summary, TEXT_CHARS)
    more = f"more: clew status {state.goal_id}"
    if end.status == "failed":
        again = after_failure(state.goal_id, state.spec.agent)
        return _of_goal("failed", state, [said, more, *again])
    if end.status == "completed":
        ended: GoalView = {**status_view(state), "status": end.status, "verified": end.verified}
        before = passed_before(end.passed_before)
        body = [said, before and f"but {before}", more]
        return _of_goal("completed", state, body, f"is {standing(ended)}")
    return None


def _of_goal(kind: NoticeKind, state: State, body: list[str], said: str = "") -> Notice:
    about = state.spec.name or state.spec.description.partition("\n")[0]
    head = f"clew: {beginning(about, TITLE_CHARS) or state.goal_id} {said or _TITLES[kind]}"
    text = clean(redact("\n".join(filter(None, body))), lines=True)
    return Notice(kind, clean(redact(head)), text, state.goal_id)


class Condition(NamedTuple):
    """A condition that holds now. `key` differs for each time it begins; `notice` is None if nobody has to be told."""

    key: str
    notice: Notice | None = None


def ask_health(at: Address) -> Health | str:
    """Return the daemon's answer, or as a text why there is none: no daemon is there, or it does not answer."""
    try:
        return cast("Health", call(at, "health", within_s=ANSWER_S))
    except NoDaemon:
        return "No daemon is running."
    except NoAnswer:
        return "A daemon is running but does not answer."
    except CliError as error:
        return f"The daemon cannot be asked: {error}"


class Situation:
    """The goals (outlined where they have ended) and the daemon, as one thread sees them; others read `conditions`."""

    def __init__(self, instance: Instance) -> None:
        self._instance = instance
        self.goals: dict[str, State] = {}
        self.health: Health | None = None
        self.conditions: dict[str, Condition] = {}
        self._blocks: dict[str, Condition] = {}
        self._daemon: dict[str, Condition] = {}
        self._gone_at: float | None = None

    def load(self, reader: Reader) -> None:
        """Take all goals of a ledger, and forget those of another."""
        self.goals, self._blocks = {}, {}
        for state in load_listed(reader).values():
            self._take(reader, state)

    def advance(self, reader: Reader, rows: Sequence[EventRow]) -> None:
        """Take what events changed."""
        for goal in {row.goal for row in rows if row.goal and row.kind.startswith("goal_")}:
            self._take(reader, load_state(reader, goal))
        for row in rows:
            if row.kind == "goal_forgotten":
                self.goals.pop(goal := str(json.loads(row.body)["goal"]), None)
                self._blocks.pop(goal, None)

    def look(self, now: float) -> None:
        """Report the situation again: the daemon, goals that are blocked, and those that have waited for long."""
        found = self._daemon | {f"goal {goal}": one for goal, one in self._blocks.items()}
        for goal, state in self.goals.items():
            since = state.waiting_since
            waits = state.goal.status == GoalStatus.WAITING and not state.paused
            if waits and now - since >= LONG_WAIT_S:
                again = f"continue now: clew continue {goal}"
                notice = _of_goal("waiting_long", state, [state.reason, again])
                found[f"goal {goal}"] = Condition(f"waits since {since}", notice)
        self.conditions = found

    def ask(self, now: float) -> None:
        """Ask the daemon how it does."""
        answer = ask_health(self._instance.socket)
        if not isinstance(answer, str):
            self.health, self._gone_at = answer, None
            self._daemon = {DAEMON: Condition("up")}
            if trouble := _TROUBLE.get(answer["ledger"]):
                notice = Notice("ledger_full", *trouble)
                self._daemon["ledger"] = Condition(answer["ledger"], notice)
            return
        self.health, self._gone_at = None, self._gone_at or now
        self._daemon.pop("ledger", None)
        if now - self._gone_at >= DOWN_S:
            again = f"Goals continue when it starts again: {TO_START}"
            down = Notice("daemon_down", "clew: the daemon is down", f"{answer}\n{again}")
            self._daemon = {DAEMON: Condition("down", down)}

    def _take(self, reader: Reader, state: State) -> None:
        goal = state.goal_id
        if not goal or not state.accepted_seq:
            return
        self.goals[goal] = outline(state) if state.ended else state
        self._blocks.pop(goal, None)
        if state.goal.status == GoalStatus.BLOCKED:
            notice = of_block(state, died=_worker_died(reader, state))
            self._blocks[goal] = Condition(str(state.rested_seq), notice)


def _worker_died(reader: Reader, state: State) -> bool:
    """Return whether the last that a goal's worker did before the block was to die."""
    died = False
    for row in reader.read(state.goal_id, max(0, state.rested_seq - BEFORE_BLOCK)):
        if row.seq <= state.rested_seq and row.kind in ("worker_started", "worker_exited"):
            event = decode(row.body)
            died = isinstance(event, ev.WorkerExited) and event.crash
    return died
