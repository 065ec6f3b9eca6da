"""What all tests share: the seed of a run, homes, and a played agent for the pure core (no process, disk, clock)."""

from __future__ import annotations

import os
import random
import signal
import sys
from dataclasses import dataclass
from itertools import count

import hypothesis
import pytest
from harness import Clew, forge, left_alone
from ordinary import nobodys_clew

from clew_daemon.ledger.ledger import Ledger
from clew_shared.config.tables import LoopSettings
from clew_shared.core.answers import ActionReport
from clew_shared.core.core import Core
from clew_shared.core.journal import Limits
from clew_shared.record import events as ev
from clew_shared.record.codec import decode, dump, encode, load
from clew_shared.record.spec import PlannedSubtask, PlannedTask, Spec
from clew_shared.record.state import State

__all__ = ["nobodys_clew"]

# How fast a machine is, and what else it does, is not what these tests are about.
hypothesis.settings.register_profile(
    "any machine",
    deadline=None,
    max_examples=40,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("any machine")
hypothesis.settings.register_profile(
    "long", hypothesis.settings.get_profile("any machine"), max_examples=2_000
)
"""`pytest --hypothesis-profile=long`: fifty times as deep, for tests that set no number of their own."""

SEEDS = 1 << 24

# Each of many hundred daemons and agents would compile all its modules again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False


def pytest_configure():
    """Draw the SEED of tests that go by chance, one for all processes of this run; `SEED=n` draws it again."""
    os.environ["SEED"] = os.environ.get("SEED") or str(random.SystemRandom().randrange(SEEDS))
    if not os.environ.get("ROUNDS"):
        os.environ.pop("ROUNDS", None)


def pytest_report_header():
    """Say what to repeat this run by."""
    return f"SEED={os.environ['SEED']}"


if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # what a shell starts in the background inherits this, and so would every child of a test
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def make_clew(tmp_path, request):
    """A function that makes a home, with keys of its config as {"table.key": value}."""
    made = []
    cold = os.environ.get("COLD") or request.node.get_closest_marker("cold")
    warm = None if cold else forge()  # else, as in `make chaos`, no daemon is forked

    def make(config=None, name="clew"):
        folder = tmp_path / name
        folder.mkdir()
        made.append(Clew(folder, config, warm))
        return made[-1]

    with left_alone(made):
        yield make


@pytest.fixture
def clew(make_clew):
    """A home, its daemon not yet started."""
    return make_clew()


@dataclass
class Answer:
    """What the agent hears of one action, from its proposal to its outcome."""

    verdict: object
    heard: object = None

    def __getattr__(self, name):
        return getattr(self.verdict, name)

    @property
    def word(self):
        said = (self.heard and self.heard.intervention) or self.verdict.intervention
        return said.kind if said else ""

    @property
    def escalated_to(self):
        return (self.heard and self.heard.escalated_to) or self.verdict.escalated_to


class PlayedAgent:
    """One goal's core, with a workspace of named contents in the place of a disk."""

    def __init__(self, *tasks, max_actions=1000, spec=None, **loops):
        numbers = count(1)
        self.files = {}
        self.at = 0.0
        self.rows = []
        rules, limits = LoopSettings.model_validate(loops), Limits(actions=max_actions)
        self.core = Core(State(), rules, lambda: next(numbers), limits=limits)
        asked = Spec(description="goal", **(spec or {}))
        self.core.emit(ev.GoalAccepted(goal_id="goal-1", spec=asked, tasks=plan(*tasks)))
        self.core.emit(ev.GoalStarted())
        self.core.emit(ev.WorkerStarted(epoch=1))
        self.look()
        self.core.start(self.at)

    @property
    def state(self):
        return self.core.state

    @property
    def world(self):
        return repr(sorted(self.files.items()))

    def take(self):
        """Move what must be recorded to `rows`, as it would come back from the ledger."""
        self.rows += [(r.seq, decode(encode(r.event))) for r in self.core.take()]
        return self.rows

    def restart(self):
        """Forget everything but a snapshot."""
        self.take()
        self.core.state = load(dump(self.core.state))

    def look(self):
        return self.core.see_world(self.world, self.at)

    def propose(self, tool, args):
        """Propose as a driver does, which looks at the world before a refusal."""
        verdict = self.core.propose_unseen(tool, args, self.at)
        if verdict is None:
            self.look()
            verdict = self.core.propose(tool, args, self.at)
        return verdict

    def act(self, tool, args, result="success", output="", *, files=None, changed=None):
        """Propose; where it is allowed, change `files` and report what `changed`, else with a measured world."""
        verdict = self.propose(tool, args)
        if not verdict.allowed:
            return Answer(verdict)
        self.files.update(files or {})
        report = ActionReport(result, output, changed, self.world if changed is None else "")
        return Answer(verdict, self.core.outcome(verdict.seq, report, self.at))

    def run(self, cmd, result="success", output="", **more):
        return self.act("run_cmd", {"cmd": cmd}, result, output, **more)

    def fail(self, cmd, output="Error: it does not work", **more):
        return self.run(cmd, "failure", output, **more)

    def read(self, path, output="text"):
        return self.act("read_file", {"path": path}, output=output)

    def write(self, path, content):
        args = {"path": path, "content": content}
        return self.act("write_file", args, output="written", files={path: content})

    def record(self, tool, args, result="success", output=None, changed=None, world=""):
        report = ActionReport(result, output, changed, world)
        return Answer(self.core.record(tool, args, report, self.at))

    def think(self, text, *, tools=False):
        word = self.core.think(text, self.at, has_tool_calls=tools).intervention
        return word.kind if word else ""

    def reflect(self, assessment=""):
        heard = self.core.reflect(ev.Reflected(iteration=0, assessment=assessment))
        return heard.intervention.kind if heard.intervention else ""

    def complete(self, *, success=True, failure=""):
        return self.core.complete_subtask(self.at, success=success, failure=failure)

    def advance(self):
        return self.core.advance(self.at)

    def die(self, tool, args):
        """Let the worker die while an action is in flight; True where it was allowed to begin."""
        verdict = self.core.propose(tool, args, self.at)
        if verdict.allowed:
            self.core.interrupt("killed", self.at, counts=True)
        return verdict.allowed

    def replan(self, level, *tasks, covers=()):
        self.core.plan(plan(*tasks), level, self.at, covers=covers)

    def feedback(self, text="try another way"):
        self.core.emit(ev.FeedbackGiven(text=text))

    def resume(self):
        self.core.emit(ev.GoalRequeued(by="resume", reopen=True))
        self.core.emit(ev.GoalStarted())
        self.core.start(self.at)


def plan(*tasks):
    """Make a plan of tasks, each a list of its subtasks' descriptions."""
    parts = [tuple(PlannedSubtask(description=name) for name in names) for names in tasks]
    return tuple(PlannedTask(description=f"task {n}", subtasks=s) for n, s in enumerate(parts))


@pytest.fixture(scope="session")
def played():
    """Give the class, to make agents of: `played(["first", "second"], repeat_limit=4)`."""
    return PlayedAgent


@pytest.fixture
def agent():
    """Give an agent with the default numbers and one implicit subtask."""
    return PlayedAgent()


@pytest.fixture
def path(tmp_path):
    """Give where a ledger of a test's own is, or will be."""
    return tmp_path / "ledger.db"


@pytest.fixture
async def ledger(path):
    """Give an empty ledger, open to write."""
    opened = Ledger.open(path)
    yield opened
    await opened.close(10)
