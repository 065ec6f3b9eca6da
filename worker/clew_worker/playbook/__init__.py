"""Strategies learned across goals: bullets, the playbook that keeps them, and what finds new ones.

Nothing here calls a model or knows the ledger; a playbook is a value that its owner stores.
"""
