"""The log: JSON lines on stdout and in a file."""
