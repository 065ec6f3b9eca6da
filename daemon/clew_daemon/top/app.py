"""The app of `clew top`: its screens, the keys that they share, and what is asked before a change."""

import asyncio
import threading
import time
from typing import ClassVar, TypeVar

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Button, Input, Static

from clew_daemon.reading.client import Change, command_of
from clew_daemon.reading.errors import CliError
from clew_daemon.reading.follow import News, following
from clew_daemon.reading.instance import Instance
from clew_daemon.reading.sanitize import clean
from clew_daemon.top.goal_views import FilesScreen, PromptScreen, TimelineScreen
from clew_daemon.top.goals_screen import GoalScreen, GoalsScreen, LogScreen
from clew_daemon.top.screens import VIEWS, GoalViewScreen, LiveScreen, ViewName

Answer = TypeVar("Answer")
KEYS = """\
Enter      open              Esc   back
1 2 3 4    of a goal: all of it, its timeline, prompts, files
arrows, PgUp, PgDn, Home, End, Tab, mouse   move
p r c      pause, continue, cancel the goal at the cursor
f          a message to its agent
l          the log (/ filters it)
q          quit; the goals continue

Before a change its command is shown, and you confirm it.
! before a goal: it needs you. Esc closes this."""
DRAW_S = 0.25  # how often a screen is drawn again, at most, while events arrive
TICK_S = 10.0  # … without events: for what is not on record, and for durations
_OF_A_GOAL: tuple[type[GoalViewScreen], ...] = GoalScreen, TimelineScreen, PromptScreen, FilesScreen
SCREENS = {one.view: one for one in _OF_A_GOAL}


class Dialog(ModalScreen[Answer]):
    """A box in front of the screen, with a text, a command mostly, above some widgets; it returns an answer."""

    BINDINGS: ClassVar[list[BindingType]] = [("escape", "dismiss", "Close")]

    def __init__(self, text: str, *below: Widget) -> None:
        super().__init__()
        self._text, self._below = text, below

    def compose(self) -> ComposeResult:
        yield Vertical(Static(Text(self._text)), *self._below, classes="dialog")


class ConfirmDialog(Dialog[bool]):
    """Asks whether to run a command; returns whether it was confirmed.

    Enter alone is a no: it may be meant for another program.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        ("y", "dismiss(True)", "Yes"),
        ("n", "dismiss(False)", "No"),
    ]

    def __init__(self, command: str) -> None:
        self._yes, self._no = Button("Yes", variant="primary"), Button("No")
        super().__init__(command, Static("Run this? (y/n)"), Horizontal(self._yes, self._no))

    def on_mount(self) -> None:
        self._no.focus()

    def on_button_pressed(self, event: Button.Pressed) -> None:
        self.dismiss(event.button is self._yes)


class AskDialog(Dialog[str]):
    """Asks for the rest of a command, and returns it."""

    def __init__(self, command: str, hint: str) -> None:
        super().__init__(f"{command} …", Input(placeholder=hint))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self.dismiss(event.value.strip())


class TopApp(App[None]):
    """Shows the goals of an instance, or first one of them."""

    TITLE = "clew top"
    ENABLE_COMMAND_PALETTE = False
    CSS = """
    .command { height: 1; background: $boost; color: $text-muted; }
    .tabs { height: 1; link-style: none; }
    .note { height: auto; background: $warning; color: $text; display: none; }
    RowTable { height: 1fr; scrollbar-size-horizontal: 0; }
    .whole { height: 1fr; }
    .asking { height: auto; max-height: 60%; }
    .question { border-top: solid $accent; }
    GoalsScreen .question { height: auto; max-height: 60%; display: none; }
    ModalScreen { align: center middle; }
    .dialog { width: 90%; max-width: 100; height: auto; max-height: 80%; border: solid $primary; padding: 1;
              background: $surface; }
    .dialog Horizontal { height: auto; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        ("q", "quit", "Quit"),
        Binding("question_mark", "keys", "Keys", key_display="?"),
        ("l", "log", "Log"),
        ("p", "change('pause')", "Pause"),
        ("r", "change('continue')", "Continue"),
        ("c", "change('cancel')", "Cancel"),
        ("f", "feedback", "Feedback"),
        *(Binding(f"{n}", f"view('{v}')", v, show=False) for n, v in enumerate(VIEWS, 1)),
    ]

    def __init__(self, instance: Instance, goal: str | None = None) -> None:
        super().__init__()
        self._instance = instance
        self._first = goal
        self._ended = threading.Event()
        self._note = ""
        self._is_due = False
        self._drawn_at = 0.0

    def on_mount(self) -> None:
        self.push_screen(GoalsScreen(self._instance))
        if self._first is not None:
            self.push_screen(GoalScreen(self._instance, self._first))
        self._ended = following(self._instance, self._heard)
        self.set_interval(DRAW_S, self._draw)

    def on_unmount(self) -> None:
        self._ended.set()

    def _heard(self, news: News) -> None:
        self._note = "" if news.begins else news.gone or self._note
        self._is_due = True

    def _draw(self) -> None:
        now, screen = time.monotonic(), self.screen
        is_due = self._is_due or now - self._drawn_at > TICK_S
        if is_due and isinstance(screen, LiveScreen):
            self._is_due, self._drawn_at = False, now
            screen.note(self._note)
            screen.renew()

    @property
    def _goal_id(self) -> str:
        goal = getattr(self.screen, "goal", None)
        return goal["id"] if goal else getattr(self.screen, "goal_id", "")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002 - textual's
        """Return whether a key applies: those that change a goal do on screens with one."""
        if action == "view":
            return bool(self.screen_stack) and isinstance(self.screen, GoalViewScreen)
        is_for_goal = action in ("change", "feedback")
        return not is_for_goal or (bool(self.screen_stack) and hasattr(self.screen, "goal"))

    def action_view(self, view: ViewName) -> None:
        """Show another view of the goal that is shown."""
        shown = self.screen
        if isinstance(shown, GoalViewScreen) and shown.view != view:
            self.switch_screen(SCREENS[view](self._instance, shown.goal_id))

    def action_log(self) -> None:
        shown = self.screen
        if not isinstance(shown, LogScreen):
            goal = shown.goal_id if isinstance(shown, GoalViewScreen) else None
            self.push_screen(LogScreen(self._instance, goal))

    def action_keys(self) -> None:
        if not isinstance(self.screen, ModalScreen):
            self.push_screen(Dialog[None](KEYS))

    def action_change(self, verb: str) -> None:
        if goal := self._goal_id:
            self.run_worker(self._confirm(Change(verb, {"goal": goal})))

    def action_feedback(self) -> None:
        if goal := self._goal_id:
            self.run_worker(self._ask(goal))

    async def _ask(self, goal: str) -> None:
        hint = "Your message to the agent; Enter sends it, Esc does not"
        if said := await self.push_screen_wait(AskDialog(f"$ clew feedback {goal}", hint)):
            await self._confirm(Change("feedback", {"goal": goal, "text": said}))

    async def _confirm(self, what: Change) -> None:
        command = clean(command_of(what))
        if not await self.push_screen_wait(ConfirmDialog(f"$ {command}")):
            return
        try:
            answer = await asyncio.to_thread(what.send, self._instance.socket)
        except CliError as error:
            self.notify(clean(error.message), title=command, severity="error", markup=False)
        else:
            said = clean(str(answer.get("said") or answer["status"]))
            self.notify(said, title=command, markup=False)
        self._is_due = True
