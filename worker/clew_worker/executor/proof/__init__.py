"""What the executor finds out about a finish; which label follows is decided by `clew_shared.proof.label`."""
