"""Strategies learned across goals: bullets, the playbook that keeps them, and what finds new ones.

Pure: no clock, no file, no model and no ledger. The daemon folds the playbook from its events, the agents'
library keeps one as a value, and both go by the same rules.
"""
