"""The configuration: its tables, where clew keeps its folders, and errors that say what is wrong and where."""
