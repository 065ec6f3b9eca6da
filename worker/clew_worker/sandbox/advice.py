"""Texts for `clew doctor`: which mechanisms are missing here, the consequences, and how to enable them."""

from pathlib import Path

HINT = 'set [sandbox] mode = "best_effort" to run without it, or "off" to run without a sandbox'
NO_LANDLOCK = "Landlock is not available (kernel 5.13 or newer, enabled with lsm=landlock,...)"

_LACKING = (  # from which ABI on, since which kernel, what is not covered before
    (2, "5.19", "files cannot be renamed or linked from folder to folder in a worker"),
    (3, "6.2", "truncating a file is refused only where a mount namespace makes it read-only"),
    (4, "6.7", "TCP is not refused by Landlock"),
    (5, "6.10", "device ioctls are not refused"),
    (6, "6.12", "signals and abstract sockets are confined only by namespaces"),
)
_SETTINGS = (
    ("kernel/unprivileged_userns_clone", "0", "sysctl kernel.unprivileged_userns_clone=1"),
    ("user/max_user_namespaces", "0", "sysctl user.max_user_namespaces=15000"),
    (
        "kernel/apparmor_restrict_unprivileged_userns",
        "1",
        "an AppArmor profile with `userns` for clew's Python, or sysctl kernel.apparmor_restrict_unprivileged_userns=0",
    ),
)
_ELSEWHERE = "in a container: allow unshare and mount in its seccomp and AppArmor profiles"
_NO_NAMESPACES = (
    "no PID, mount and IPC namespace: user namespaces are not permitted here. A process of clew guards the workers "
    "instead; what that lacks is in docs/security.md, Mechanisms. To allow namespaces: "
)
NO_OVERLAY = (
    "no overlay of a workspace: where a proof needs it, checks run a second time in a copy, which takes as long as "
    "copying the workspace ([proof] view, docs/proof.md)"
)
NO_SECCOMP = (
    "no seccomp filter for this machine (x86_64 and aarch64 have one): docs/security.md, Mechanisms"
)


def of_landlock(abi: int) -> list[str]:
    """Return what this version of Landlock's ABI does not cover, a line each; 0 means no Landlock."""
    if abi == 0:
        return [f"{NO_LANDLOCK}: {HINT}"]
    return [
        f"Landlock ABI {abi}: {what} (Linux {kernel} does)"
        for since, kernel, what in _LACKING
        if abi < since
    ]


def of_namespaces() -> str:
    """Return the consequences of missing namespaces, and the setting that would allow them."""
    for name, forbidding, fix in _SETTINGS:
        try:
            if Path("/proc/sys", name).read_text().strip() == forbidding:
                return _NO_NAMESPACES + fix
        except OSError:
            continue
    return _NO_NAMESPACES + _ELSEWHERE
