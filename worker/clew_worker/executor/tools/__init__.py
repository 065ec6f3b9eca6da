"""The tools that an executor carries out, one function each."""
