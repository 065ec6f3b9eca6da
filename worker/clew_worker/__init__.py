"""The worker: agents that think and propose, the executor that acts, and the library for agents of other makers.

It decides nothing about loops and records nothing durable; that is `clew_daemon`, which it never imports.
"""
