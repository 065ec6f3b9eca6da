"""Goal files: bytes in, a goal or all its errors out."""
