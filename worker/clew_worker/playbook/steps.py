"""What a tool call did: the words of `clew_shared.playbook.steps`, where agents look for them."""

from clew_shared.playbook.steps import Kind, Step, ToolCall, is_test_path, steps

__all__ = ["Kind", "Step", "ToolCall", "is_test_path", "steps"]
