"""The exit codes of clew's programs: the daemon, the command line, agents, cells and executors."""

import signal
from enum import IntEnum

SIGNAL_BASE = 128  # what is added to the number of the signal that a process died of, as shells do


class ExitCode(IntEnum):
    """What an exit code means, here and to a service manager; sources: sysexits.h, docs/cli.md, docs/protocol.md."""

    OK = 0
    FAILED = 1
    NO_DAEMON = 3
    TEMPORARY = 75  # an agent asks to be started again later
    CONFIGURATION = 78  # starting again would not help before the configuration is changed
    INTERRUPTED = SIGNAL_BASE + signal.SIGINT
    TERMINATED = SIGNAL_BASE + signal.SIGTERM
