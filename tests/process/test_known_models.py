"""How a goal's model is asked: as was found to fit, by its profile, by the rung of an attempt; a scripted endpoint."""

import json

from llm_server import Reply, ScriptedLlm, says, writes

HANGS = Reply(hang=True)


def use(clew, llm, **keys):
    agent = {"kind": "llm", "base_url": llm.base_url, "model": "scripted", **keys}
    clew.configure({f"agents.scripted.{key}": value for key, value in agent.items()})


def is_json(request):
    return "tools" not in request and request["response_format"]["type"] == "json_schema"


def test_a_goal_that_moves_to_another_model_begins_with_what_is_known_of_that_one(clew):
    looks = writes("run_cmd", cmd="ls")
    with ScriptedLlm(looks, then=HANGS) as llm:
        use(clew, llm)
        goal = clew.start().submit("# Count in the log\n")
        clew.until(lambda: len(llm.requests) > 1, "a question in json mode")
        clew.stop()
        clew.configure({"agents.scripted.model": "bigger"})
        clew.start()
        clew.until(lambda: len(llm.requests) > 2, "the first question to the other model")
        now = json.loads(clew.clew("context", goal, "--json"))
    assert [request["model"] for request in llm.requests] == ["scripted", "scripted", "bigger"]
    assert ["tools" in request for request in llm.requests] == [True, False, True]
    assert now["messages"] == llm.requests[2]["messages"]


def test_a_profile_sets_how_a_model_is_asked_and_a_reload_changes_its_budget(clew):
    looks = says(json.dumps({"tool": "run_cmd", "args": {"cmd": "ls"}}))
    with ScriptedLlm(looks, then=HANGS) as llm:
        use(clew, llm)
        profile = 'context.models."Scrip*"'
        clew.configure(
            {f"{profile}.mode": "json", f"{profile}.temperature": 0.5, f"{profile}.window": 4500}
        )
        goal = clew.start().submit("# Count in the log\n")
        clew.until(lambda: len(llm.requests) > 1, "the second question")
        first = llm.requests[0]
        assert is_json(first)
        assert (first["temperature"], first["max_tokens"]) == (0.5, 1500)
        clew.configure({f"{profile}.window": 30_000})
        assert "window" in clew.clew("reload")
        clew.kill_agent(goal)
        clew.until(lambda: len(llm.requests) > 2, "the question of a new epoch")
        assert llm.requests[2]["max_tokens"] == 4000
