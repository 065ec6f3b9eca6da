"""A goal as others see it: `state.json`, `status`, and the files in `.agent_context/`."""
