"""The names of OpenTelemetry's GenAI conventions that clew's spans use.

Their status is "Development", and the constants of `opentelemetry-semantic-conventions` are deprecated, so they are
here, in one place. Source: open-telemetry/semantic-conventions-genai, docs/gen-ai/gen-ai-agent-spans.md.
"""

from __future__ import annotations

OPERATION = "gen_ai.operation.name"
INVOKE_WORKFLOW = "invoke_workflow"
INVOKE_AGENT = "invoke_agent"
CHAT = "chat"
EXECUTE_TOOL = "execute_tool"

CONVERSATION = "gen_ai.conversation.id"
PROVIDER = "gen_ai.provider.name"
AGENT = "gen_ai.agent.name"
MODEL = "gen_ai.request.model"
SERVED = "gen_ai.response.model"
TOKENS_IN = "gen_ai.usage.input_tokens"
TOKENS_OUT = "gen_ai.usage.output_tokens"
TOKENS_CACHED = "gen_ai.usage.cache_read.input_tokens"
TOOL = "gen_ai.tool.name"
TOOL_CALL = "gen_ai.tool.call.id"
TOOL_ARGUMENTS = "gen_ai.tool.call.arguments"
TOOL_RESULT = "gen_ai.tool.call.result"
ERROR = "error.type"

CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
"""The variable that permits contents in spans, if it is "true"."""

_PROVIDERS = {
    "api.openai.com": "openai",
    "api.anthropic.com": "anthropic",
    "api.mistral.ai": "mistral_ai",
    "api.groq.com": "groq",
    "api.deepseek.com": "deepseek",
    "api.x.ai": "x_ai",
}
OTHER = "_OTHER"


def provider(host: str) -> str:
    """Return the provider that an endpoint's host belongs to."""
    return _PROVIDERS.get(host, OTHER)
