"""How large a share surely is, given how often it was seen. Pure."""

import math

_Z_90 = 1.645


def lower_bound(hits: float, total: float) -> float:
    """Return Wilson's lower bound of a share at 90 % confidence, 0 where nothing was seen."""
    if total <= 0:
        return 0.0
    share, z2 = hits / total, _Z_90**2
    spread = _Z_90 * math.sqrt(share * (1 - share) / total + z2 / (4 * total**2))
    return max(0.0, (share + z2 / (2 * total) - spread) / (1 + z2 / total))
