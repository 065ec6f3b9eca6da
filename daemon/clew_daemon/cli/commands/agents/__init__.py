"""`clew agents`: the agents of the config, and what each may do on this machine."""
