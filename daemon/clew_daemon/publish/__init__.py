"""What the daemon writes for people: `.agent_context/` and the reports in the outbox."""
