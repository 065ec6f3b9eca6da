"""The control socket, and what each request of the command line does."""
