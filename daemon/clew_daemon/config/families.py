"""The built-in profiles of model families that people run locally, each with the source of its numbers. Pure data.

A family is here only for what its makers state (`window`, `temperature`) or what was tried with it (`mode`,
docs/measurements.md). Tables of the config win over these (docs/configuration.md).
"""

from collections.abc import Mapping
from types import MappingProxyType

from clew_shared.config.tables import ModelProfile, Rung

SMALL_ATTEMPTS, SMALL_ITERATIONS = 5, 6
_SMALL = ModelProfile(
    attempts=SMALL_ATTEMPTS,
    iterations=SMALL_ITERATIONS,
    answer_tokens=1000,
    ladder=(Rung(), Rung(temperature=0.4), Rung(temperature=0.6), Rung(temperature=0.8)),
)
"""Of up to 3 billion parameters: more and shorter attempts, and a gentle ladder (docs/measurements.md).

What such a model does not reach in a few turns it rarely reaches later in the same conversation; at a temperature of
0.7 its calls are wrong much more often than at 0.2. 1,000 tokens are more than it writes well in one call.
"""

_SIZES = ("[1-9][0-9][0-9]m", "0.[1-9]b", "[1-3]b", "[12].[0-9]b")
"""Up to 3 billion parameters. No letter may follow: 3bit and 2.4bpw are quantisations of models of any size."""

_QWEN_3 = ModelProfile(temperature=0.6, window=32_768)
_QWEN_3_INSTRUCT = ModelProfile(temperature=0.7, window=262_144)
_CONTEXT_8K = ModelProfile(window=8_192)
_CONTEXT_16K = ModelProfile(window=16_384)
_CONTEXT_32K = ModelProfile(window=32_768)

FAMILIES: Mapping[str, ModelProfile] = MappingProxyType(
    {
        # by the size in the name, as in qwen2.5-coder:1.5b, Llama-3.2-3B-Instruct, gemma-3-270m-it
        **{f"*[-:]{size}{end}": _SMALL for size in _SIZES for end in ("", "[!a-z]*")},
        # huggingface.co/Qwen/Qwen2.5-Coder-1.5B-Instruct, "Context Length"; larger ones need YaRN for more. In
        # JSON mode a prompt takes less than half the tokens of one with native calls (docs/measurements.md)
        "qwen2.5-coder*": ModelProfile(mode="json", window=32_768),
        # huggingface.co/Qwen/Qwen3-8B, "Best Practices": 0.6 where it thinks, and never greedy decoding
        "qwen3": _QWEN_3,
        "qwen3-*": _QWEN_3,
        # huggingface.co/Qwen/Qwen3-Coder-30B-A3B-Instruct and Qwen3-4B-Instruct-2507, "Best Practices"
        "qwen3-coder*": _QWEN_3_INSTRUCT,
        "qwen3-*instruct-2507*": _QWEN_3_INSTRUCT,
        # huggingface.co/meta-llama/Meta-Llama-3-8B-Instruct, "Context length": 8k (since Llama 3.1: 128k)
        "llama3": _CONTEXT_8K,
        "*llama-3-*": _CONTEXT_8K,
        # huggingface.co/mistralai/Mistral-Small-3.2-24B-Instruct-2506 and Devstral-Small-2507, "Usage"
        "mistral-small*": ModelProfile(temperature=0.15),
        "devstral*": ModelProfile(temperature=0.15),
        # huggingface.co/mistralai/Mistral-Nemo-Instruct-2407: "requires smaller temperatures"
        "mistral-nemo*": ModelProfile(temperature=0.3),
        # huggingface.co/google/gemma-2-9b-it: context 8,192; gemma-3-1b-it: 32k (larger ones: 128k)
        "gemma2": _CONTEXT_8K,
        "gemma-2-*": _CONTEXT_8K,
        "gemma3:1b*": _CONTEXT_32K,
        "gemma-3-1b*": _CONTEXT_32K,
        # huggingface.co/microsoft/Phi-3-mini-4k-instruct and phi-4: "Context length"
        "phi-3-*4k*": ModelProfile(window=4_096),
        "phi4": _CONTEXT_16K,
        "phi-4": _CONTEXT_16K,
        # github.com/deepseek-ai/DeepSeek-Coder: "a window size of 16K"
        "deepseek-coder": _CONTEXT_16K,
        "deepseek-coder-*b-*": _CONTEXT_16K,
        # huggingface.co/deepseek-ai/DeepSeek-R1, "Usage Recommendations": 0.5 to 0.7, else endless repetition
        "deepseek-r1*": ModelProfile(temperature=0.6),
        # github.com/openai/gpt-oss, "Recommended Sampling Parameters"
        "gpt-oss*": ModelProfile(temperature=1.0),
    }
)
