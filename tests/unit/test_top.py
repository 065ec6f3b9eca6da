"""`clew top` by its keys, without a terminal: what is shown of a ledger, and what is sent to the daemon."""

import time

import pytest
from textual.widgets import Static

from clew_daemon.control.lookup import handler
from clew_daemon.control.requests import (
    FeedbackRequest,
    GoalChangeRequest,
    StatusRequest,
    UnblockRequest,
)
from clew_daemon.control.server import Control, ControlError
from clew_daemon.reading.instance import Instance
from clew_daemon.record.goals import GoalStore
from clew_daemon.top.app import ConfirmDialog, TopApp
from clew_daemon.top.goals_screen import ActionScreen, GoalScreen, GoalsScreen
from clew_daemon.top.screens import RowTable
from clew_shared.config.tables import Settings
from clew_shared.ledger.ledger import Ledger
from clew_shared.record import events as ev
from clew_shared.record.spec import Spec
from clew_shared.views.publish import goal_detail, status_view

HOSTILE = "[bold]x[/] \x1b[2J\u202e <script> [link=x]"
SIGNATURE = "run_command::[red]echo"
WITHIN_S = 60.0
"""How long a test waits for what it expects."""


class Home:
    """A home with a ledger, and nothing that runs."""

    def __init__(self, folder):
        self.folder = folder
        (folder / "state").mkdir()
        self.ledger = Ledger.open(folder / "state" / "ledger.db")
        self.store = GoalStore(self.ledger, Settings())
        self.instance = Instance(folder, {})

    async def goal(self, goal, *events, description="Say hello"):
        spec = Spec(description=description)
        await self.store.accept(ev.GoalAccepted(at=1e9, goal_id=goal, spec=spec), b"goal")
        for event in events:
            await self.emit(goal, event)

    async def emit(self, goal, event, output=None):
        await self.store.decide(self.store.cores[goal], lambda core: core.emit(event, output))

    async def action(self, goal, output, *, tool="run_command"):
        allowed = ev.ActionAllowed(
            at=1e9, epoch=1, tool=tool, args={"cmd": HOSTILE}, signature=SIGNATURE
        )
        await self.emit(goal, allowed)
        of = self.store.cores[goal].state.seq
        await self.emit(
            goal, ev.ActionFinished(at=1e9, of=of, result="success", outcome="o"), output
        )
        return of


@pytest.fixture
async def home(tmp_path):
    one = Home(tmp_path)
    await one.goal("first", ev.GoalStarted(at=1e9), description=HOSTILE)
    await one.goal(
        "stuck", ev.GoalStarted(at=1e9), ev.GoalBlocked(at=1e9, reason="why", question="?")
    )
    await one.goal("later")
    yield one
    await one.ledger.close(10)


class Top:
    """The running app and its keys."""

    def __init__(self, app, pilot):
        self.app, self.pilot = app, pilot

    async def until(self, condition):
        deadline = time.monotonic() + WITHIN_S
        while time.monotonic() < deadline:
            await self.pilot.pause(0.01)
            if found := condition():
                return found
        raise AssertionError(f"not reached; the screen is {self.app.screen}")

    async def on(self, kind):
        """Wait for a screen of that kind."""
        return await self.until(lambda: isinstance(self.app.screen, kind) and self.app.screen)

    async def press(self, *keys):
        await self.pilot.press(*keys)

    def keys(self):
        return list(self.app.screen.query_one(RowTable)._shown)

    def text(self, selector=".page"):
        return self.app.screen.query_one(selector, Static).render().plain

    async def open(self):
        """Open the goal that needs a person."""
        await self.until(lambda: self.app.screen.query(RowTable) and self.keys())
        await self.press("enter")
        await self.on(GoalScreen)
        await self.until(lambda: "why" in self.text())


class Running:
    """`async with` a running app."""

    def __init__(self, instance, goal=None, size=(80, 24)):
        self.app = TopApp(instance, goal)
        self.context = self.app.run_test(size=size)

    async def __aenter__(self):
        return Top(self.app, await self.context.__aenter__())

    async def __aexit__(self, *error):
        await self.context.__aexit__(*error)


async def test_what_needs_a_person_comes_first(home):
    async with Running(home.instance) as top:
        await top.until(lambda: isinstance(top.app.screen, GoalsScreen) and top.keys())
        assert top.keys() == ["stuck", "first", "later"]


async def test_what_an_agent_wrote_is_text(home):
    seq = await home.action("first", HOSTILE.encode() * 3)
    shown = HOSTILE.replace("\x1b", "\\x1b").replace("\u202e", "\\u202e")
    async with Running(home.instance, "first") as top:
        await top.on(GoalScreen)
        await top.until(lambda: top.keys() == [str(seq)])
        assert shown in top.text()
        await top.press("enter")
        await top.on(ActionScreen)
        await top.until(lambda: shown * 3 in top.text())
        assert "\x1b" not in top.text()


@pytest.fixture
async def daemon(home):
    """A control socket that answers some requests, and what was asked of it."""
    asked = []

    async def done(request):
        asked.append(request)
        return {"id": request.goal, "status": "waiting", "said": "as you say"}

    async def refused(request):
        asked.append(request)
        raise ControlError("it is [too] late")

    async def status(request):
        states = home.store.states()
        if request.goal:
            return {"daemon": None, "goal": goal_detail(states[request.goal])}
        return {"daemon": None, "goals": [status_view(one) for one in states.values()]}

    answers = {
        **handler(StatusRequest, status),
        **handler(GoalChangeRequest, done, "pause"),
        **handler(FeedbackRequest, done),
        **handler(UnblockRequest, refused),
    }
    folder = home.instance.places.socket.parent
    folder.mkdir(parents=True, exist_ok=True)
    control = Control(home.instance.places.socket, answers)
    await control.start()
    yield asked
    await control.stop()


async def test_a_change_is_sent_once_it_is_confirmed_and_names_its_command(home, daemon):
    async with Running(home.instance) as top:
        await top.open()
        await top.press("p")
        dialog = await top.on(ConfirmDialog)
        assert dialog.query(Static).first().render().plain == "$ clew pause stuck"
        await top.press("n")
        await top.on(GoalScreen)
        await top.press("c")
        await top.on(ConfirmDialog)
        await top.press("enter")  # meant for another program, perhaps
        await top.on(GoalScreen)
        assert daemon == []
        await top.press("p")
        await top.on(ConfirmDialog)
        await top.press("y")
        await top.until(lambda: daemon == [GoalChangeRequest("pause", "stuck")])


async def test_without_a_daemon_it_says_so_and_shows_what_is_on_record(home):
    async with Running(home.instance) as top:
        await top.until(lambda: "does not answer" in top.text(".note"))
        await top.until(top.keys)
