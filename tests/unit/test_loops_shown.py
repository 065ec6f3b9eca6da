"""What people see of loops: why an agent was told or refused, and what came of it (docs/loops.md)."""

import pytest

from clew_daemon.cli.commands.loops import loop_lines
from clew_daemon.herald.metrics import counted
from clew_daemon.publish.report import render
from clew_daemon.record.eventlog import line
from clew_daemon.record.findings import findings, step
from clew_daemon.record.goals import GoalStore
from clew_shared.config.settings import load
from clew_shared.config.tables import LoopSettings, Settings
from clew_shared.core.answers import ActionReport
from clew_shared.core.journal import AttemptLimits
from clew_shared.ledger import Ledger
from clew_shared.record import events as ev
from clew_shared.record.spec import Spec
from clew_shared.views.publish import status_view


def done(core, tool, args, output, result="success", world="w0"):
    verdict = core.propose(tool, args, 1.0)
    if verdict.allowed:
        core.outcome(verdict.seq, ActionReport(result, output, None, world), 1.0)


def search(core, n):
    done(core, "search", {"pattern": f"word{n}"}, "nothing found")


def make(core, _n):
    done(core, "run_cmd", {"cmd": "make"}, "No rule to make target", "failure")


def news(core, n):
    done(core, "read_file", {"path": f"f{n}"}, f"a line of text number{n}")


def till(step_, words):
    """Do the same until the agent was told or refused so many times."""

    def play(core, _n):
        for n in range(60):
            if len(core.state.findings) < words and not core.state.attempt.over:
                step_(core, n)
        assert len(core.state.findings) == words

    return play


@pytest.fixture
async def told(tmp_path):
    """Play steps into a ledger; give the loops as `clew loops` has them, and as it prints them."""
    ledger = Ledger.open(tmp_path / "ledger.db")
    book = GoalStore(ledger, Settings())
    book.listeners.clear()

    async def play(*steps, attempts=1):
        await book.accept(ev.GoalAccepted(goal_id="g", spec=Spec(description="Do")), b"file")
        core = book.cores["g"]
        core.attempts = AttemptLimits(limit=attempts)
        with book.entering(core):
            core.emit(ev.GoalStarted())
            core.see_world("w0", 0.0)
            core.start(0.0)
            for n, one in enumerate(steps):
                one(core, n)
        await book.commit(core)
        found, _ = findings(ledger, "g", 100)
        seqs = {seq for one in found for seq in one["steps"]}
        named = {seq: one for seq in seqs if (one := step(ledger, "g", seq))}
        shown = [row for one in found for row in loop_lines(one, named)]
        return core, found, "\n".join("".join(text for text, _ in row) for row in shown)

    yield play
    await ledger.close(10)


@pytest.mark.parametrize(
    ("steps", "attempts", "came"),
    [
        ([till(search, 1)], 1, ["open"]),
        ([till(search, 1), news], 1, ["heeded"]),
        ([till(search, 2)], 1, ["ignored", "open"]),
        ([till(search, 3)], 3, ["ignored", "ignored", "attempt_ended"]),
        ([till(make, 1)], 1, ["open"]),
        ([till(make, 1), news], 1, ["heeded"]),
        ([till(make, 1), make], 1, ["ignored"]),
    ],
)
async def test_what_came_of_it(told, steps, attempts, came):
    _, found, _ = await told(*steps, attempts=attempts)
    assert [one["came_of_it"] for one in found] == came


async def test_a_word_names_its_steps_the_last_news_and_what_was_said(told):
    core, found, text = await told(news, till(search, 1), news)
    (one,) = found
    assert one["intervention"] == one["kind"] == "nothing_new"
    assert (one["debt"] >= 3, one["since_gain"] >= 3, one["again"], one["stays"]) == (
        True, True, False, None,
    )  # fmt: skip
    count = f"{len(one['steps'])} steps brought nothing new:"
    last = f"new thing: #{one['last_gain']['seq']}"
    for part in (count, "search word1", "worked: nothing found", last):
        assert part in text
    assert one["message"].startswith(f"{count} search")
    assert "The agent was told this, and: Do something that can bring something new" in text
    assert "it heeded that" in text
    assert "told once, 1 heeded" in render(core.state, [], [])


async def test_a_refusal_names_what_was_done_before_and_with_what_answer(told):
    core, found, text = await told(*[make] * 3)
    (one,) = found
    assert one["intervention"] is None
    assert one["message"].startswith("Refused, a loop")
    first, second = one["steps"]
    assert f"#{first}, #{second} make → failed: No rule to make target" in text
    assert "It asked for this again: make" in text
    assert "refused once, 0 heeded" in render(core.state, [], [])


async def test_an_answer_that_stays_is_told_of_again_after_as_many_more(told):
    def fix(core, n):
        done(core, "write_file", {"path": "a", "content": f"{n}"}, f"was v{n}x", world=f"w{n}")
        done(core, "run_cmd", {"cmd": "make"}, "undefined name x", "failure", f"w{n}")

    _, found, text = await told(till(fix, 2))
    first, second = (one["stays"]["times"] for one in found)
    assert second == 2 * first
    assert [one["came_of_it"] for one in found] == ["ignored", "open"]
    assert f"The same answer came {first} times:" in text
    assert f"The same answer came {second} times, here the last {second - first}:" in text
    assert "make → failed: undefined name x" in text
    assert found[0]["message"].startswith(
        f'The same answer came {first} times, to make ({first} times): "undefined name x".'
    )


async def test_an_error_is_shown_by_its_line_and_no_output_as_such(told):
    def build(core, n):
        answer = "> app@1 build\nerror: no module money\n    at load (chunk.js:1)"
        args = {"command": "npm run build", "description": f"Build {n}"}
        done(core, "Bash", args, answer, "failure")

    def grep(core, _n):
        done(core, "Bash", {"command": "grep -n x a"}, "")

    _, found, text = await told(till(build, 1), news, till(grep, 2))
    assert found[0]["last_gain"]["text"] == "error: no module money"
    assert "Bash npm run build → failed: error: no module money\n" in text
    assert "It did the same 3 times:" in text
    assert "`Bash grep -n x a` 3 times" in text
    assert "Bash grep -n x a → worked: (no output)" in text


async def test_an_attempt_that_was_ended_has_its_number_and_its_reason(told):
    _, found, text = await told(till(search, 3), attempts=3)
    assert found[-1]["ended"] == {"attempt": 1, "reason": "nothing_new"}
    assert "attempt 1 was ended: it was told that it brings nothing new" in text
    assert found[1]["again"]
    assert min(found[1]["steps"]) > found[0]["seq"]  # those since the word before


async def test_a_refusal_is_quoted_whole_though_its_output_has_lines(told):
    def make_lines(core, _n):
        done(core, "run_cmd", {"cmd": "make"}, "cc a.c\nNo rule\nto make target", "failure")

    _, _, text = await told(*[make_lines] * 3)
    assert 'with the same files. The last time it ended in failure with: "cc a.c' in text
    assert 'to make target"' in text


def test_turns_that_lead_back_are_not_said_to_change_no_file(played):
    agent = played(patience=0)
    for n in range(9):
        agent.run(f"patch {n}", files={"a": f"{n % 2}"}, output="patched")
        agent.reflect("advancing")
    (word,) = [e for _, e in agent.take() if e.kind == "intervened"][:1]
    assert "led back to states of the files that were there before" in word.message
    assert "no file changed" not in word.message


def test_no_word_is_said_after_the_end_of_an_attempt_or_in_its_last_turn(agent):
    agent.core.attempts = AttemptLimits(limit=3)
    for n in range(60):
        if not agent.state.attempt.over:
            agent.act("search", {"pattern": f"word{n}"}, output="nothing found")
            agent.reflect("advancing")
    told = len(agent.state.findings)
    assert {agent.think("I plan") for _ in range(5)} == {""}
    agent.core.begin_attempt(1.0)
    agent.read("new", "a line of text that nobody has read")
    assert len(agent.state.findings) == told
    assert agent.state.findings[-1].came == "attempt_ended"


def test_an_attempt_that_was_told_twice_and_went_on_ends_for_that_reason(agent):
    agent.core.attempts = AttemptLimits(limit=3)
    for n in range(30):
        agent.act("search", {"pattern": f"word{n}"}, output="nothing found")
    events = [event for _, event in agent.take()]
    (ended,) = [event for event in events if event.kind == "attempt_ended"]
    assert ended.reason == "nothing_new"
    assert "brings nothing new, and continued" in ended.tried[0]
    words = [event for event in events if event.kind == "intervened"]
    said = line(words[0])
    assert said
    _, fields = said
    assert (fields["debt"], fields["since_gain"]) == (words[0].debt, words[0].since_gain)
    series = [found for event in words for found in counted(event, "")]
    assert series == [(("clew_interventions", "nothing_new"), 1)] * 3


def test_a_goal_at_work_shows_its_debt_and_steps_and_another_patience_applies_at_once(played):
    agent = played(spec={"patience": 0})
    for n in range(12):
        assert agent.act("search", {"pattern": f"word{n}"}, output="nothing found").word == ""
    view = status_view(agent.state)
    assert view["since_gain"] >= 10
    assert view["debt"] > 3
    hurried = played(patience=50)
    for n in range(12):
        hurried.act("search", {"pattern": f"word{n}"}, output="nothing found")
    hurried.core.loops = LoopSettings()
    assert hurried.act("search", {"pattern": "x"}, output="nothing found").word == "nothing_new"
    hurried.core.emit(ev.GoalEnded(status="cancelled"))
    assert status_view(hurried.state)["since_gain"] is status_view(hurried.state)["debt"] is None


def test_keys_that_patience_replaced_are_named_with_their_line_and_have_no_effect():
    loaded = load("[loops]\nstale_actions = 9\nsame_error_limit = 9\n", {}, "c.toml")
    assert loaded.settings == Settings()
    assert [text.partition(" ")[0] for text in loaded.outdated] == ["c.toml:2:", "c.toml:3:"]
    assert all("`loops.patience`" in text for text in loaded.outdated)
