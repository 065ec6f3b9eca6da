"""How results are shown: text made harmless, lines and columns, units, and goals as people see them."""
