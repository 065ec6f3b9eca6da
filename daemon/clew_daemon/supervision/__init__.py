"""Which goal runs when, what happens when a worker ends, and what is removed in the end."""
