"""One life of the daemon: its parts are put together, started in order, and stopped in the reverse order."""
