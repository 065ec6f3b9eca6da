"""What the executor finds out about a finish: what judges and was changed, and whether the checks pass without it.

It looks and puts back; which label follows is decided elsewhere (`clew_shared.proof.label`).
"""
