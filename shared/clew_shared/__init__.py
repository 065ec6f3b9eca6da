"""The record and the rules: what an action is, what happened, and what may happen next.

Nothing here starts a process, opens a socket or reads a clock; the only files are the ledger's and the
published ones. Both `clew_daemon` and `clew_worker` stand on it, and it knows neither.
"""
