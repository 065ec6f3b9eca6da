"""The app of `clew top`: its screens, the keys that they share, and when they are drawn again."""

from __future__ import annotations

import asyncio
import time
from typing import Any, ClassVar

from rich.terminal_theme import TerminalTheme
from textual.app import App
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen

from clew_daemon.reading import goal_commands
from clew_daemon.reading.errors import CliError
from clew_daemon.reading.follow import (
    Following,
    StreamBatch,
    StreamBegin,
    StreamGone,
    StreamNews,
)
from clew_daemon.reading.goal_commands import GoalCommand
from clew_daemon.reading.instance import Instance
from clew_daemon.reading.sanitize import clean
from clew_daemon.top.dialogs import ChoiceDialog, ConfirmDialog, KeysDialog, MessageDialog
from clew_daemon.top.files_screen import FilesScreen
from clew_daemon.top.goal_screen import GoalScreen
from clew_daemon.top.goals_screen import GoalsScreen
from clew_daemon.top.home import GoalRow, HomeReader
from clew_daemon.top.log_screen import LogScreen
from clew_daemon.top.prompt_screen import PromptScreen
from clew_daemon.top.screens import LiveScreen
from clew_daemon.top.timeline_screen import TimelineScreen
from clew_daemon.top.views import VIEWS, GoalViewScreen, ViewName

_DARK = [
    (84, 93, 104),
    (244, 112, 103),
    (87, 171, 90),
    (218, 170, 63),
    (83, 155, 245),
    (176, 131, 240),
    (57, 197, 207),
    (205, 217, 229),
]
_LIGHT = [
    (36, 41, 47),
    (207, 34, 46),
    (26, 127, 55),
    (154, 103, 0),
    (9, 105, 218),
    (130, 80, 223),
    (27, 124, 131),
    (110, 119, 129),
]
"""Black, red, green, yellow, blue, magenta, cyan, white."""

DARK = TerminalTheme((18, 18, 18), (224, 224, 224), _DARK)
LIGHT = TerminalTheme((255, 255, 255), (36, 41, 47), _LIGHT)

DRAW_S = 0.25
"""How often a screen is drawn again, at most, while events arrive."""

SCREENS: dict[ViewName, type[GoalViewScreen[Any]]] = {
    "goal": GoalScreen,
    "timeline": TimelineScreen,
    "prompt": PromptScreen,
    "files": FilesScreen,
}

TICK_S = 10.0
"""How often it is drawn again without events: for what is not on record, and for durations."""


class TopApp(App[None]):
    """Shows the goals of an instance, or first one of them."""

    TITLE = "clew top"
    ENABLE_COMMAND_PALETTE = False
    CSS = """
    .command { height: 1; background: $boost; color: $text-muted; }
    .tabs { height: 1; }
    .tab { width: auto; padding: 0 1; }
    .here { text-style: bold reverse; }
    .hint { color: $text-muted; }
    .note { height: auto; background: $warning; color: $text; display: none; }
    RowTable { height: 1fr; scrollbar-size-horizontal: 0; }
    .whole { height: 1fr; }
    .asking { height: auto; max-height: 8; }
    .question { border-top: solid $accent; }
    GoalsScreen .question { height: auto; max-height: 50%; display: none; }
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
        ("u", "unblock", "Unblock"),
        ("f", "feedback", "Feedback"),
        Binding("d", "dark", "Dark/light", show=False),
        *(
            Binding(str(n), f"view('{v}')", v.capitalize(), show=False)
            for n, v in enumerate(VIEWS, 1)
        ),
    ]

    def __init__(self, instance: Instance, goal: str | None = None) -> None:
        super().__init__()
        self.ansi_theme_dark, self.ansi_theme_light = DARK, LIGHT
        self._home = HomeReader(instance)
        self._first = goal
        self._following = Following(instance, self._heard)
        self._note = ""
        self._is_due = False
        self._drawn_at = 0.0

    def on_mount(self) -> None:
        self.push_screen(GoalsScreen(self._home))
        if self._first is not None:
            self.push_screen(GoalScreen(self._home, self._first))
        self._following.begin()
        self.set_interval(DRAW_S, self._draw)

    def on_unmount(self) -> None:
        self._following.end()

    def _heard(self, news: StreamNews) -> None:
        """Take in, from the thread that follows, that something has changed."""
        if isinstance(news, StreamGone):
            self._note = news.reason
        elif isinstance(news, StreamBegin) and self._following.source.is_streaming:
            self._note = ""
        elif isinstance(news, StreamBatch) and not news.events:
            return
        self._is_due = True

    def _draw(self) -> None:
        now, screen = time.monotonic(), self.screen
        if not isinstance(screen, LiveScreen) or not (
            self._is_due or now - self._drawn_at > TICK_S
        ):
            return
        self._is_due, self._drawn_at = False, now
        screen.note(self._note)
        screen.renew()

    @property
    def _goal(self) -> GoalRow | None:
        """The goal that a key is about; None on a screen without one."""
        goal = getattr(self.screen, "goal", None)
        return goal if isinstance(goal, GoalRow) else None

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002 - textual's
        """Return whether a key applies: those that change a goal do on screens with one."""
        if action == "view":
            return bool(self.screen_stack) and isinstance(self.screen, GoalViewScreen)
        is_for_goal = action in ("change", "feedback", "unblock")
        return not is_for_goal or (bool(self.screen_stack) and hasattr(self.screen, "goal"))

    def action_view(self, view: ViewName) -> None:
        """Show another view of the goal that is shown."""
        shown = self.screen
        if isinstance(shown, GoalViewScreen) and shown.view != view:
            self.switch_screen(SCREENS[view](self._home, shown.goal_id))

    def action_log(self) -> None:
        shown = self.screen
        if not isinstance(shown, LogScreen):
            goal = shown.goal_id if isinstance(shown, GoalViewScreen) else None
            self.push_screen(LogScreen(self._home, goal))

    def action_keys(self) -> None:
        if not isinstance(self.screen, ModalScreen):
            self.push_screen(KeysDialog())

    def action_dark(self) -> None:
        self.theme = "textual-light" if self.current_theme.dark else "textual-dark"

    def action_change(self, verb: str) -> None:
        if goal := self._goal:
            self._confirm(goal_commands.change(verb, goal.id))

    def action_feedback(self) -> None:
        if goal := self._goal:

            def send(text: str | None) -> None:
                if text:
                    self._confirm(goal_commands.feedback(goal.id, text))

            self.push_screen(MessageDialog(goal.id), send)

    def action_unblock(self) -> None:
        goal = self._goal
        if goal is None or not goal.refused:
            self.notify("this goal has no refused action", markup=False)
            return

        def send(signature: str | None) -> None:
            if signature:
                self._confirm(goal_commands.unblock(goal.id, signature))

        self.push_screen(ChoiceDialog(goal.id, goal.refused), send)

    def _confirm(self, what: GoalCommand) -> None:
        def perform(confirmed: bool | None) -> None:
            if confirmed:
                self.run_worker(self._send(what))

        self.push_screen(ConfirmDialog(what.command), perform)

    async def _send(self, what: GoalCommand) -> None:
        try:
            effect = await asyncio.to_thread(self._home.send, what.request)
        except CliError as error:
            self.notify(clean(error.message), title=what.command, severity="error", markup=False)
        else:
            self.notify(effect, title=clean(what.command), markup=False)
        self._is_due = True
