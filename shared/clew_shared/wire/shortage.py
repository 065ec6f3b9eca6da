"""Whether an error means that descriptors, processes or memory have run out: both sides of the nursery's wire ask."""

import errno

_SHORTAGES = frozenset(
    {
        errno.EMFILE,
        errno.ENFILE,
        errno.EAGAIN,
        errno.ENOMEM,
        errno.ENOBUFS,
        errno.ETOOMANYREFS,  # too many descriptors in flight on Unix sockets
    }
)


def is_shortage(error: BaseException) -> bool:
    """Return whether descriptors, processes or memory have run out: what failed may succeed later."""
    return isinstance(error, MemoryError) or (
        isinstance(error, OSError) and error.errno in _SHORTAGES
    )
