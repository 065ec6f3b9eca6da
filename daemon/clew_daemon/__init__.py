"""The daemon: watches workers, judges their proposals by `clew_shared.gate`, records, restarts.

It runs no tool, calls no LLM, and never imports `clew_worker`; they meet in `clew_shared.protocol`.
"""
