"""Strategies learned across goals: bullets, the playbook that holds them, the reflector that finds new ones."""
