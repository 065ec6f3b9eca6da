"""The rules of what is learned of models: which mode fits, what the next goal begins with, what is recorded."""

import pytest

from clew_daemon.learning.playbook import model_key, of_model
from clew_shared.config.agent_tables import LlmAgentSettings, RunbookAgentSettings
from clew_shared.record.prompt_facts import Prompt
from clew_shared.wire.hello import HelloAnswer
from clew_worker.agent.json_mode import ToolRequest
from clew_worker.agent.llm_client import Completion, NativeCall
from clew_worker.agent.memory import Memory

AGENT = LlmAgentSettings(model="small", base_url="http://me:secret@127.0.0.1:8080/v1")
KEY = "small@127.0.0.1:8080"
NATIVE = Completion(calls=(NativeCall("finish", "{}"),), served="small b1")
TEXT = Completion(text="...", served="small b1")
CALL = [ToolRequest("finish")]
BROKEN = [ToolRequest("finish", fault="no JSON")]
NOTHING = []


@pytest.mark.parametrize(
    ("answers", "mode"),
    [
        ([(TEXT, CALL)], "json"),
        ([(NATIVE, CALL), (TEXT, CALL)], "tools"),
        ([(NATIVE, BROKEN)], "json"),
        ([(TEXT, NOTHING)], "tools"),
        ([(TEXT, NOTHING), (TEXT, NOTHING)], "json"),
        ([(Completion(finish_reason="length"), NOTHING)] * 3, "tools"),
    ],
)
def test_json_is_asked_for_where_a_model_makes_no_native_calls(answers, mode):
    free, bound = Memory(HelloAnswer()), Memory(HelloAnswer())
    for completion, answer in answers:
        free.answered(completion, answer, auto=True)
        bound.answered(completion, answer, auto=False)
    assert (free.prompt.mode, bound.prompt.mode) == (mode, "tools")


def test_a_model_is_known_by_its_name_and_where_it_is_asked_without_what_opens_the_door():
    assert model_key(AGENT) == KEY
    assert of_model(Prompt(), AGENT).model == KEY
    assert of_model(Prompt(model="mine"), RunbookAgentSettings()).model == "mine"
    assert of_model(None, AGENT) is None
