"""The walls around a cell: what this kernel offers (`probe`) and putting them up (`confine`).

It knows paths, rights and system calls; nothing of goals, actions or protocols.
"""

import os

from clew_shared.cellwire import CellSpec, SandboxReport

from . import grants, landlock, namespaces, privileges, seccomp

HINT = 'set [sandbox] mode = "best_effort" to run without it, or "off" to run without a sandbox'
_NO_LANDLOCK = "Landlock is not available (kernel 5.13 or newer, enabled with lsm=landlock,...)"


class SandboxError(Exception):
    """What the spec asks for cannot be had here."""


def probe() -> SandboxReport:
    """Find out what this kernel and this user can have; forks, so call it single-threaded."""
    abi = landlock.abi()
    userns = not privileges.is_root()
    pidns = namespaces.possible(userns=userns, netns=False)
    netns = pidns and namespaces.possible(userns=userns, netns=True)
    messages = []
    if abi == 0:
        messages.append(f"{_NO_LANDLOCK}: {HINT}")
    elif not landlock.has_scopes(abi):
        messages.append(
            f"Landlock ABI {abi} does not confine signals and abstract sockets (kernel 6.12 does)"
        )
    if not pidns:
        messages.append(
            "no PID namespace: user namespaces are not permitted here; workers are guarded by a "
            "process of clew instead, and sockets in /run and /tmp are within their reach"
        )
    if not seccomp.available:
        messages.append("no seccomp filter for this machine: agents may open unix sockets")
    fallback = "seccomp" if seccomp.available else "none"
    return SandboxReport(
        landlock_abi=abi,
        scopes=landlock.has_scopes(abi),
        isolation="pidns" if pidns else "guard",
        userns=pidns and userns,
        network_off="netns" if netns else fallback,
        seccomp=seccomp.available,
        messages=tuple(messages),
    )


def kept_paths(spec: CellSpec) -> list[str]:
    """Name what must stay where it is when /run and /tmp are covered."""
    box = spec.sandbox
    paths = [box.workspace, spec.cwd, *box.private, *box.write, *grants.visible(spec)]
    return [os.path.realpath(path) for path in paths]


def writable_paths(spec: CellSpec) -> list[str]:
    """Name what the cell may write; the rest of its mounts can be read-only."""
    box = spec.sandbox
    acts = grants.may_write(spec)
    paths = (box.workspace, *box.private, *box.write) if acts else ()
    return [os.path.realpath(path) for path in paths]


def missing(spec: CellSpec, report: SandboxReport) -> list[str]:
    """Say what the spec asks for and cannot have; empty when all of it can be had."""
    if spec.sandbox.mode == "off":
        return []
    found = [] if report.landlock_abi else [_NO_LANDLOCK]
    if not spec.sandbox.network and report.network_off == "none":
        found.append("network = false cannot be enforced (no network namespace, no seccomp)")
    return found


def confine(spec: CellSpec, report: SandboxReport, *, pidns: bool, netns: bool) -> list[str]:
    """Put the walls up around this process, for good; returns what it had to do without.

    SandboxError where mode is `enforce` and something is missing.
    """
    box = spec.sandbox
    lacking = missing(spec, report)
    if lacking and box.mode == "enforce":
        raise SandboxError(f"{'; '.join(lacking)}. To allow it, {HINT}.")
    acts = grants.may_write(spec)
    if box.mode != "off" and report.landlock_abi:
        _landlock(spec, private_shm=pidns)
    if box.mode != "off" and privileges.is_root():
        privileges.keep_capabilities(privileges.ACTING if acts else privileges.THINKING)
    elif pidns and report.userns:
        privileges.keep_capabilities(())
    if box.mode != "off":
        _seccomp(spec, acts=acts, netns=netns)
    return lacking


def _landlock(spec: CellSpec, *, private_shm: bool) -> None:
    try:
        rules = landlock.ruleset(grants.grants(spec, private_shm=private_shm))
    except grants.TooManyPathsError as error:
        raise SandboxError(str(error)) from error
    try:
        landlock.restrict(rules)
    finally:
        os.close(rules)


def _seccomp(spec: CellSpec, *, acts: bool, netns: bool) -> None:
    if not acts:
        seccomp.confine_agent(may_exec=spec.kind == "command")
    if not spec.sandbox.network and not netns:
        seccomp.confine_network()
