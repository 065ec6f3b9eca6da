"""The app of `clew top`: its screens, the keys that they share, and when they are drawn again."""

import asyncio
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import ClassVar

from textual.app import App
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen

from clew_daemon.control import requests
from clew_daemon.reading.client import command_of, send
from clew_daemon.reading.errors import CliError
from clew_daemon.reading.follow import News, following
from clew_daemon.reading.goal_list import GoalView
from clew_daemon.reading.instance import Instance
from clew_daemon.reading.sanitize import clean
from clew_daemon.top.dialogs import AskDialog, ConfirmDialog, KeysDialog
from clew_daemon.top.goal_views import FilesScreen, PromptScreen, TimelineScreen
from clew_daemon.top.goals_screen import GoalScreen, GoalsScreen
from clew_daemon.top.log_screen import LogScreen
from clew_daemon.top.screens import VIEWS, GoalViewScreen, LiveScreen, ViewName

DRAW_S = 0.25
"""How often a screen is drawn again, at most, while events arrive."""
TICK_S = 10.0
"""How often it is drawn again without events: for what is not on record, and for durations."""
SCREENS: dict[ViewName, type[GoalViewScreen]] = {
    "goal": GoalScreen,
    "timeline": TimelineScreen,
    "prompt": PromptScreen,
    "files": FilesScreen,
}


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
        ("u", "unblock", "Unblock"),
        ("f", "feedback", "Feedback"),
        Binding("d", "dark", "Dark/light", show=False),
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
        """Take in, from the thread that follows, that something has changed."""
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
        """The id of the goal that a key is about, also before it was read; "" for none."""
        goal = getattr(self.screen, "goal", None)
        return goal["id"] if goal else getattr(self.screen, "goal_id", "")

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
            self.switch_screen(SCREENS[view](self._instance, shown.goal_id))

    def action_log(self) -> None:
        shown = self.screen
        if not isinstance(shown, LogScreen):
            goal = shown.goal_id if isinstance(shown, GoalViewScreen) else None
            self.push_screen(LogScreen(self._instance, goal))

    def action_keys(self) -> None:
        if not isinstance(self.screen, ModalScreen):
            self.push_screen(KeysDialog())

    def action_dark(self) -> None:
        self.theme = "textual-light" if self.current_theme.dark else "textual-dark"

    def action_change(self, verb: str) -> None:
        if goal := self._goal_id:
            self.run_worker(self._confirm(requests.GoalChangeRequest(verb, goal)))

    def action_feedback(self) -> None:
        if goal := self._goal_id:
            hint = "Your message to the agent; Enter sends it, Esc does not"
            dialog = AskDialog(f"$ clew feedback {goal}", hint)
            self.run_worker(self._ask(dialog, partial(requests.FeedbackRequest, goal)))

    def action_unblock(self) -> None:
        goal: GoalView | None = getattr(self.screen, "goal", None)
        if goal is None or not goal["blocked_actions"]:
            self.notify("this goal has no refused action", markup=False)
            return
        dialog = AskDialog(f"$ clew unblock {goal['id']}", choices=goal["blocked_actions"])
        self.run_worker(self._ask(dialog, partial(requests.UnblockRequest, goal["id"])))

    async def _ask(
        self, dialog: AskDialog, meant: Callable[[str], requests.ControlRequest]
    ) -> None:
        if said := await self.push_screen_wait(dialog):
            await self._confirm(meant(said))

    async def _confirm(self, what: requests.ControlRequest) -> None:
        command = clean(command_of(what))
        if not await self.push_screen_wait(ConfirmDialog(f"$ {command}")):
            return
        try:
            answer = await asyncio.to_thread(send, self._instance.socket, what)
        except CliError as error:
            self.notify(clean(error.message), title=command, severity="error", markup=False)
        else:
            said = clean(str(answer.get("said") or answer["status"]))
            self.notify(said, title=command, markup=False)
        self._is_due = True
