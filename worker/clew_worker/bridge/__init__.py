"""The bridge: runs a coding agent of others (Codex, Claude Code, opencode) whose only hands are clew's tools."""
