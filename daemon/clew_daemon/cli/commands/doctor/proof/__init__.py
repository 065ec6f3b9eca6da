"""The proof of a coding agent: a small goal in a temporary home, against an endpoint that plays its model.

No account and no network are needed: the agent thinks with what the endpoint says.
"""
