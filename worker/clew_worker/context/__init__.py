"""Prompt building: which messages an agent's model is shown, in which order, within which size.

Nothing here calls a model, runs a tool or reads a file.
"""
