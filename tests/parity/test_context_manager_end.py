"""How a goal of `ContextManager` ends without a daemon."""

from clew_worker import ContextManager, Subtask, Task


def test_a_goal_is_finished_only_when_nothing_of_it_is_open(tmp_path):
    with ContextManager(tmp_path) as ctx:
        ctx.load_or_init("Do it")
        ctx.state.goal.tasks.append(Task("All", [Subtask("one"), Subtask("two")]))
        ctx.mark_subtask_complete(success=True)
        assert ctx.finish("too early") is False
        assert ctx.state.goal.status == "in_progress"
        ctx.advance_to_next_subtask()
        ctx.mark_subtask_complete(success=True)
        assert ctx.finish("both are done") is True
        assert ctx.state.goal.status == "completed"
        assert ctx.failing_checks == {}


def test_a_goal_that_cannot_be_done_is_finished_as_failed(tmp_path):
    with ContextManager(tmp_path) as ctx:
        ctx.load_or_init("Do it")
        assert ctx.finish("no way", success=False) is True
        assert ctx.state.goal.status == "failed"
