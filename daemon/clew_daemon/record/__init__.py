"""The goals in memory and their ledger; views of both."""
