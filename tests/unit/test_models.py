"""Models: which profile applies, what was learned of one, and how attempts and windows follow that."""

import pytest

from clew_daemon.config.profiles import FAMILIES, matches, profile_of, settings_for
from clew_daemon.learning.playbook import model_key, of_model
from clew_daemon.record.goal_limits import limits_of
from clew_shared.config.agent_tables import LlmAgentSettings, RunbookAgentSettings
from clew_shared.config.settings import load
from clew_shared.config.tables import Settings
from clew_shared.core.journal import iterations_used_up
from clew_shared.record.spec import Prompt
from clew_shared.record.state import Attempts, State
from clew_shared.wire.hello import HelloAnswer
from clew_worker.agent.llm_client import Completion
from clew_worker.agent.work import Memory
from clew_worker.agent.written import ToolRequest


@pytest.mark.parametrize(
    ("pattern", "model"),
    [
        ("qwen2.5-coder*", "qwen2.5-coder:1.5b"),
        ("qwen2.5-coder*", "Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF"),
        ("qwen2.5-coder*", "registry.local:5000/library/qwen2.5-coder:7b"),
        ("qwen2.5-coder*", "/models/qwen2.5-coder-1.5b-instruct-q4_k_m.gguf"),
        ("QWEN2.5-Coder", "qwen2.5-coder:latest"),
        ("qwen2.5-coder:?.5b", "qwen2.5-coder:1.5b"),
        ("qwen/*", "Qwen/Qwen3-8B"),
        ("*", "gpt-5"),
    ],
)
def test_a_profile_matches_a_model_by_its_name_without_folders_tag_and_case(pattern, model):
    assert matches(pattern, model)


@pytest.mark.parametrize(
    ("model", "temperature", "window"),
    [
        ("qwen2.5-coder:1.5b", None, 32_768),
        ("qwen3:4b", 0.6, 32_768),
        ("Qwen/Qwen3-8B-GGUF", 0.6, 32_768),
        ("unsloth/Qwen3-Coder-30B-A3B-Instruct-GGUF", 0.7, 262_144),
        ("meta-llama/Meta-Llama-3-8B-Instruct", None, 8_192),
        ("llama3:8b", None, 8_192),
        ("llama3.2:3b", None, None),
        ("meta-llama/Llama-3.1-8B-Instruct", None, None),
        ("gemma2:9b", None, 8_192),
        ("gemma3:12b", None, None),
        ("microsoft/Phi-3-mini-4k-instruct-gguf", None, 4_096),
        ("devstral:24b", 0.15, None),
        ("deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B", 0.6, None),
        ("openai/gpt-oss-20b", 1.0, None),
        ("gpt-5-mini", None, None),
    ],
)
def test_families_have_what_their_makers_state(model, temperature, window):
    found = {pattern for pattern in FAMILIES if matches(pattern, model)}
    windows = {FAMILIES[name].window for name in found if FAMILIES[name].window}
    agent = LlmAgentSettings(model=model)
    assert profile_of(Settings(), agent).values.get("temperature") == temperature
    assert window in windows if window else not windows


AGENT = LlmAgentSettings(model="small", base_url="http://me:secret@127.0.0.1:8080/v1")
KEY = "small@127.0.0.1:8080"
NATIVE = Completion(calls=(("finish", "{}"),), served="small b1")
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
    tools = HelloAnswer.model_validate({"options": {"agent": {"mode": "tools"}}})
    free, bound = Memory(HelloAnswer()), Memory(tools)
    for completion, answer in answers:
        free.answered(completion, answer)
        bound.answered(completion, answer)
    assert (free.prompt.mode, bound.prompt.mode) == (mode, "tools")


def test_a_model_is_known_by_its_name_and_where_it_is_asked_without_what_opens_the_door():
    assert model_key(AGENT) == KEY
    assert of_model(Prompt(), AGENT).model == KEY
    assert of_model(Prompt(model="mine"), RunbookAgentSettings()).model == "mine"
    assert of_model(None, AGENT) is None


@pytest.mark.parametrize(
    ("config", "needed", "first", "later", "full_until"),
    [
        ("", 0, 10, 10, 10),
        ("", 2, 6, 10, 10),
        ("", 6, 9, 10, 10),
        ("", 10, 15, 15, 15),
        ("[attempts]\nadapt = false", 10, 10, 10, 10),
        ("[attempts]\niterations = 4", 10, 4, 4, 10),
        ('[context.models."small*"]\niterations = 7', 2, 7, 7, 10),
        ("[context]\nfull_until = 8", 10, 15, 15, 8),
    ],
)
def test_attempts_and_windows_follow_what_was_needed_unless_the_config_sets_them(
    config, needed, first, later, full_until
):
    agent = f'{config}\n[agents.a]\nmodel = "small"\nbase_url = "http://127.0.0.1:8080/v1"\n'
    settings = load(agent + '[agents]\ndefault = "a"\n', {}, "c.toml").settings
    state = State(attempts=Attempts(turns_needed=needed))
    limits = limits_of(state, settings)
    assert [limits.turns(n) for n in (1, 2, 3)] == [first, later, later]
    context = settings_for(settings, settings.agents.get("a"), needed).context
    assert context.full_until == full_until < context.moderate_until < context.aggressive_until
    state.iteration = first
    assert iterations_used_up(state, limits)
    state.attempt.number = 2
    assert iterations_used_up(state, limits) is (first == later)
