"""Attempts become as long as a model's verified goals needed: learned, and kept over a restart."""

from llm_server import ScriptedLlm, calls

WRITE, DONE = (
    calls(("write_file", {"path": "a", "content": "b"})),
    calls(("finish", {"summary": "done"})),
)


def test_attempts_adapt_to_a_model_after_five_verified_goals(clew):
    def needed_at(number):
        goal = clew.submit("---\nchecks: {a: test -f a}\n---\n# Do it\n", f"goal_{number}.md")
        clew.wait("model.used", goal=goal)
        return clew.wait("worker.started", goal=goal)["turns_needed"]

    with ScriptedLlm(*[WRITE, DONE] * 7) as llm:
        agent = {"kind": "llm", "base_url": llm.base_url, "model": "quick"}
        clew.configure({f"agents.quick.{key}": value for key, value in agent.items()})
        clew.configure({"agents.default": "quick"})
        clew.start()
        assert [needed_at(n) for n in range(6)] == [0, 0, 0, 0, 0, 2]
        clew.kill()
        clew.start()
        assert needed_at(6) == 2
    assert clew.verified()
