"""`clew doctor`: checks what clew needs, and how to fix what does not work.

Each check is a function that yields findings and raises only CliError. It changes nothing.
"""
