"""What the daemon alone needs of the configuration: the file, the profiles of models, and what a model needs."""
