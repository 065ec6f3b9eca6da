"""The ways in which an agent's call to the daemon, or its whole work, can come to an end."""

from typing import Literal

from clew_shared.wire import protocol

RETRY_AFTER_MAX_S = 30 * 86_400.0
"""The longest wait that an agent may ask for."""


class RpcError(Exception):
    """The daemon refused a request: `code` as in `clew_shared.wire.protocol` (WRONG_STATE, ...)."""

    def __init__(self, method: str, code: int, message: str) -> None:
        super().__init__(f"{method}: {message}")
        self.code = code
        self.message = message

    @property
    def stopping(self) -> bool:
        """Whether the daemon refused because it is stopping this worker."""
        return self.code == protocol.STOPPING


class Disconnected(Exception):
    """The daemon has closed the connection, or no longer answers."""


class CannotContinue(Exception):
    """The agent must stop: `temporary` (a later try may work), or `configuration` (a person must act)."""

    def __init__(
        self,
        kind: Literal["temporary", "configuration"],
        reason: str,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(reason)
        self.kind = kind
        self.reason = reason
        self.retry_after_s = retry_after_s
