"""Which profile applies to which model, and what wins over what."""

import pytest

from clew_daemon.config.families import FAMILIES
from clew_daemon.config.profiles import matches, profile_of
from clew_shared.config.agent_tables import LlmAgentSettings
from clew_shared.config.tables import Settings


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
        ("Qwen/Qwen3-8B-GGUF", 0.6, 32_768),
        ("qwen3:4b", 0.6, 32_768),
        ("unsloth/Qwen3-Coder-30B-A3B-Instruct-GGUF", 0.7, 262_144),
        ("meta-llama/Meta-Llama-3-8B-Instruct", None, 8_192),
        ("llama3:8b", None, 8_192),
        ("llama3.2:3b", None, None),
        ("meta-llama/Llama-3.1-8B-Instruct", None, None),
        ("gemma2:9b", None, 8_192),
        ("gemma3:1b", None, 32_768),
        ("gemma3:12b", None, None),
        ("microsoft/Phi-3-mini-4k-instruct-gguf", None, 4_096),
        ("devstral:24b", 0.15, None),
        ("deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B", 0.6, None),
        ("deepseek-coder-v2:16b", None, None),
        ("openai/gpt-oss-20b", 1.0, None),
        ("granite3.3:8b", None, None),
        ("gpt-5-mini", None, None),
        ("claude-sonnet-4-5", None, None),
    ],
)
def test_families_have_what_their_makers_state(model, temperature, window):
    found = {pattern for pattern in FAMILIES if matches(pattern, model)}
    windows = {FAMILIES[name].window for name in found if FAMILIES[name].window}
    agent = LlmAgentSettings(model=model)
    assert profile_of(Settings(), agent).values.get("temperature") == temperature
    assert window in windows if window else not windows
