"""The commands, one module or package for each family, imported when one of them is called."""
