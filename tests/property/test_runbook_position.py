from hypothesis import given
from hypothesis import strategies as st

from clew_shared.wire.hello import entry_from
from clew_worker.agent import runbook

FAILED = st.sampled_from(["failure", "error", "timeout", "interrupted", "blocked"])


def position(steps, actions, total):
    return runbook.position(steps, [*map(entry_from, actions)], total)


@st.composite
def runs(draw):
    """Steps, and the actions of a run of them that was cut off somewhere."""
    commands = draw(st.lists(st.sampled_from("abc"), min_size=1, max_size=40))
    steps = [{"tool": "run_cmd", "args": {"cmd": c}} for c in commands]
    done = draw(st.integers(0, len(steps)))
    actions = []
    for step in steps[:done]:
        failures = draw(st.lists(FAILED, max_size=1)) if draw(st.integers(0, 9)) == 0 else []
        named = {"name": step["tool"], "args": step["args"]}
        actions += [{**named, "result": result} for result in [*failures, "success"]]
    if done < len(steps) and draw(st.booleans()):
        args = steps[done]["args"]
        actions.append({"name": "run_cmd", "args": args, "result": draw(FAILED)})
    return steps, done, actions


@given(runs())
def test_with_all_actions_known_the_next_step_is_exactly_the_first_undone_one(run):
    steps, done, actions = run
    assert position(steps, actions, len(actions)) == done


@given(runs(), st.integers(1, 20))
def test_with_the_last_actions_only_no_step_is_skipped_that_nothing_speaks_for(run, kept):
    steps, done, actions = run
    distinct = [{"tool": "run_cmd", "args": {"cmd": f"step {n}"}} for n in range(len(steps))]
    at, named = 0, []
    for action in actions:
        named.append({**action, "args": distinct[at]["args"]})
        at += action["result"] == "success"
    assert position(distinct, named[-kept:], len(named)) == done


@given(runs(), st.sampled_from(["failure", "error", "timeout", "interrupted"]), st.integers(1, 2))
def test_a_step_that_a_person_has_corrected_or_put_in_is_the_next_one(run, result, times):
    steps, done, actions = run
    failed = {"name": "run_cmd", "args": {"cmd": "wrong"}, "result": result}
    corrected = [*steps[:done], {"tool": "run_cmd", "args": {"cmd": "right"}}, *steps[done:]]
    over = actions[:-1] if actions and actions[-1]["result"] != "success" else actions
    acted = [*over, *[failed] * times]
    assert position(corrected, acted, len(acted)) == done
