"""The daemon: watches workers, judges their proposals by `clew_shared.gate`, records, restarts.

It runs no tool, calls no LLM, and never imports `clew_worker`; they meet in `clew_shared.wire.protocol`.
"""

VERSION = "0.2.0"
"""Of clew; the package takes it from here. Asking for the installed package's costs 20 ms."""
