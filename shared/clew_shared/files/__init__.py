"""Files and folders: written durably, removed whatever they contain."""
