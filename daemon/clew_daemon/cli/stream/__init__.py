"""The client of the daemon's stream of events (docs/stream.md), and the ledger in its place where no daemon runs."""
