"""The library for agents written in Python, with a daemon or without."""
