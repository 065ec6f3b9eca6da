"""Whether a goal is done: what judges it, how many tests ran, and the label that follows (docs/proof.md). Pure."""
