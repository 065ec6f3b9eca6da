"""One pure module for each coding agent: how it is started, and what its event stream says."""
