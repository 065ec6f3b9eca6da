"""The log: JSON lines on stdout, in a file and in the journal."""
