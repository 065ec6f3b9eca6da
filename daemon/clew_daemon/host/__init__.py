"""What the daemon asks of its host: folders, threads, git, keys, and the service manager."""
