"""The `alternation` and `cycle` rules: equal rounds without progress."""

import pytest


def play(agent, moves):
    """Make moves until one is refused; give how many were made and the reason."""
    for n, move in enumerate(moves):
        answer = move(agent)
        if not answer.allowed:
            return n + 1, answer.reason
    return None


def writes(path, content):
    return lambda agent: agent.write(path, content)


def fails(cmd, output="it does not work"):
    return lambda agent: agent.fail(cmd, output)


def reads(path):
    return lambda agent: agent.read(path, f"text of {path}")


def test_an_edit_done_and_undone_is_refused_when_the_second_round_would_close(agent):
    assert play(agent, [writes("a", "x"), writes("a", "y")] * 3) == (4, "alternation")


def test_a_refused_edit_and_its_undoing_is_not_said_to_have_had_its_effect(agent):
    answers = [writes("a", text)(agent) for text in "xyxy"]
    assert "goes back and forth" in answers[-1].message
    assert "Its effect is already there" not in answers[-1].message


def test_edit_test_and_the_same_edit_and_test_is_refused_at_the_second_test(agent):
    assert play(agent, [writes("a", "x"), fails("pytest")] * 3) == (4, "alternation")


def test_two_edits_with_a_test_after_each_are_refused_at_the_end_of_the_second_round(agent):
    ring = [writes("a", "x"), fails("pytest", "no x"), writes("a", "y"), fails("pytest", "no y")]
    assert play(agent, ring * 3) == (8, "cycle")


def test_two_commands_in_turn_that_only_read_are_refused_when_the_third_round_would_close(agent):
    assert play(agent, [reads("a"), reads("b")] * 4) == (6, "alternation")


@pytest.mark.parametrize("size", [3, 4])
def test_a_ring_that_only_reads_is_refused_when_its_third_round_would_close(agent, size):
    ring = [reads(f"file {n}") for n in range(size)]
    assert play(agent, ring * 4) == (3 * size, "cycle")


def test_where_nothing_is_reported_the_second_b_is_refused(agent):
    def plain(name):
        return lambda agent: agent.record(name, {})

    assert play(agent, [plain("a"), plain("b")] * 3) == (4, "alternation")


def test_a_ring_longer_than_max_period_is_left_to_the_other_rules(agent):
    ring = [reads(f"file {n}") for n in range(5)]
    assert play(agent, ring * 4) == (16, "repetition")


def test_max_period_can_be_set(played):
    ring = [reads(f"file {n}") for n in range(5)]
    assert play(played(max_period=5), ring * 4) == (15, "cycle")


def test_rounds_in_which_the_output_moves_are_work(agent):
    for n in range(20):
        assert agent.run("queue list", output=f"{40 - n} left").allowed
        assert agent.run("take one", output=f"item {n}x").allowed


def test_edits_that_differ_with_the_same_test_between_are_work(agent):
    moves = [m for n in range(20) for m in (writes("a", f"v{n}"), fails("pytest"), reads("a"))]
    assert play(agent, moves) is None


def test_waits_are_nothing_in_a_round(agent):
    def wait(agent):
        return agent.act("wait", {"seconds": 1})

    assert play(agent, [writes("a", "x"), wait, writes("a", "y")] * 3) == (6, "alternation")


def test_waiting_between_polls_whose_output_moves_is_work(agent):
    for n in range(20):
        assert agent.run("sleep 10").allowed
        assert agent.run("status", output=f"{n} of 20").allowed


def test_going_back_once_and_then_on_is_work(agent):
    moves = [
        writes("a", "old"), fails("pytest", "old fails"),
        writes("a", "new"), fails("pytest", "new fails worse"),
        writes("a", "old"), fails("pytest", "old fails"),
        writes("a", "other"), fails("pytest", "other fails"),
    ]  # fmt: skip
    assert play(agent, moves) is None


def test_what_was_refused_is_named_with_its_ring(agent):
    play(agent, [writes("a", "x"), writes("a", "y")] * 3)
    (loop,) = [e for _, e in agent.take() if e.kind == "loop_detected"]
    assert loop.loop == "alternation"
    assert loop.evidence.count("write_file") == 2


def test_claimed_changes_back_and_forth_are_refused_in_time(agent):
    def claims(name):
        return lambda agent: agent.record(name, {}, output="ok", changed=True)

    refused = play(agent, [claims("do"), claims("undo")] * 4)
    assert refused
    assert refused[0] <= 6


def test_a_record_that_would_close_the_round_is_refused(agent):
    def recorded(content):
        def move(agent):
            agent.files["a"] = content
            args = {"path": "a", "content": content}
            return agent.record("write_file", args, output="ok", world=agent.world)

        return move

    assert play(agent, [recorded("x"), recorded("y")] * 3) == (4, "alternation")


def test_plain_mode_refuses_the_second_b_whatever_came_of_it(played):
    agent = played(progress_aware=False)

    def moving(name):
        return lambda agent: agent.run(
            name, output=str(agent.state.seq), files={"n": str(agent.state.seq)}
        )

    assert play(agent, [moving("a"), moving("b")] * 2) == (4, "alternation")
