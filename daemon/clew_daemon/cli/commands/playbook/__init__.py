"""`clew playbook`: the strategies learned across goals, listed, shown, changed, exported and imported."""
