"""An error as a person would put it: what failed on which file, without numbers and quotes."""


def plain(error: BaseException) -> str:
    """Return an error's message; for one of the system: `permission denied: PATH`."""
    if not (isinstance(error, OSError) and error.strerror):
        return str(error)
    words = error.strerror[:1].lower() + error.strerror[1:]
    paths = [name for name in (error.filename, error.filename2) if name is not None]
    return ": ".join([words, *(_shown(path) for path in paths)])


def recordable(text: str) -> str:
    """Return text as JSON and the ledger can hold it: a path or a file name may have bytes that are not UTF-8."""
    return text.encode("utf-8", "backslashreplace").decode()


def _shown(path: object) -> str:
    name = path.decode("utf-8", "backslashreplace") if isinstance(path, bytes) else str(path)
    return recordable(name)
