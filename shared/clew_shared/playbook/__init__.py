"""Strategies learned across goals: bullets, the playbook that holds them, and the reflector that finds new ones.

Pure: no clock, file, model or ledger. The daemon folds its playbook from events, the agents' library holds one as a
value, and both follow the same rules.
"""
