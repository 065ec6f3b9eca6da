"""The playbook for agents in Python: the shared one with a clock and files of its own.

What a strategy is and when two are one stands in `clew_shared.playbook`; nothing here calls a model.
"""
