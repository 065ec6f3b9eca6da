"""The sandbox of a cell: `probe` finds out what this kernel offers, `confine` restricts the process.

It deals with paths, rights and system calls, not with goals, actions or protocols.
"""

import os

from clew_shared.wire.nursery import CellSpec, SandboxReport
from clew_worker.sandbox import advice, grants, landlock, namespaces, privileges, seccomp

_ANY_PORT = "the coding agent may connect to any port: that takes Linux 6.7 (Landlock ABI 4)"
_OFFLINE = ("runbook", "cli")
"""Built-in agents that speak only to the daemon; a coding agent's CLI has a cell and a network of its own."""


class SandboxError(Exception):
    """The spec requires what this kernel or this user cannot provide."""


def probe() -> SandboxReport:
    """Return which mechanisms this kernel and this user have; forks, so the process must be single-threaded."""
    abi = landlock.abi()
    userns = not privileges.is_root()
    pidns = namespaces.possible(userns=userns, netns=False)
    netns = pidns and namespaces.possible(userns=userns, netns=True)
    messages = advice.of_landlock(abi)
    messages += [] if pidns else [advice.of_namespaces()]
    overlays = pidns and namespaces.overlay_possible(userns=userns)
    messages += [] if overlays else [advice.NO_OVERLAY]
    messages += [] if seccomp.available else [advice.NO_SECCOMP]
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


def view(spec: CellSpec) -> namespaces.MountView:
    """Return what the mounts of a cell show, and which of it is writable."""
    box = spec.sandbox
    own = (*grants.own_folders(spec), spec.cwd)
    acts = grants.may_write(spec)
    return namespaces.MountView(
        own=own,
        keep=(*box.write, *grants.visible(spec)),
        hide=box.hide,
        writable=(*grants.writable(spec), *box.write) if acts else grants.writable(spec),
    )


def missing(spec: CellSpec, report: SandboxReport) -> list[str]:
    """Return the required mechanisms that are not available here, each as a phrase."""
    if spec.sandbox.mode == "off":
        return []
    found = [] if report.landlock_abi else [advice.NO_LANDLOCK]
    if not spec.sandbox.network and report.network_off == "none":
        found.append("network = false cannot be enforced (no network namespace, no seccomp)")
    return found


def confine(spec: CellSpec, report: SandboxReport, *, pidns: bool, netns: bool) -> list[str]:
    """Restrict this process, irrevocably; return the mechanisms that are missing.

    Raises SandboxError where mode is `enforce` and something is missing.
    """
    box = spec.sandbox
    lacking = missing(spec, report)
    weaker = [] if spec.kind != "cli" or landlock.has_ports(report.landlock_abi) else [_ANY_PORT]
    if lacking and box.mode == "enforce":
        raise SandboxError(f"{'; '.join(lacking)}. To allow it, {advice.HINT}.")
    acts = grants.may_write(spec)
    if box.mode != "off" and report.landlock_abi:
        _landlock(spec, pidns=pidns, network=_has_network(spec, netns=netns))
    if box.mode != "off" and privileges.is_root():
        privileges.keep_capabilities(privileges.ACTING if acts else privileges.THINKING)
    elif pidns and report.userns:
        privileges.keep_capabilities(())
    if box.mode != "off":
        seccomp.confine(_walls(spec, pidns=pidns, network=_has_network(spec, netns=netns)))
    return [*lacking, *weaker]


def commands_rules(spec: CellSpec, report: SandboxReport, *, pidns: bool) -> int:
    """Return the ruleset of the domain that an executor's commands are in, -1 where there is none.

    It is made before `confine`, while every path can be seen. Commands may do what the executor may, except to reach
    the store of snapshots.
    """
    if spec.kind != "executor" or spec.sandbox.mode == "off" or not report.landlock_abi:
        return -1
    if not spec.sandbox.store:
        return landlock.inner_ruleset()
    try:
        return landlock.ruleset(grants.grants(grants.of_commands(spec), private_shm=pidns))
    except grants.TooManyPathsError as error:
        raise SandboxError(str(error)) from error


def _has_network(spec: CellSpec, *, netns: bool) -> bool:
    """Return whether internet sockets are allowed; in a network namespace they reach nothing."""
    return netns or (spec.sandbox.network and spec.agent not in _OFFLINE)


def _landlock(spec: CellSpec, *, pidns: bool, network: bool) -> None:
    refused = 0 if network else landlock.BIND_TCP | landlock.CONNECT_TCP
    if not grants.may_write(spec):
        refused |= landlock.BIND_TCP
    if spec.kind == "cli":
        refused |= landlock.CONNECT_TCP
    try:
        granted = grants.grants(spec, private_shm=pidns)
        rules = landlock.ruleset(granted, refused, spec.sandbox.ports)
    except grants.TooManyPathsError as error:
        raise SandboxError(str(error)) from error
    try:
        landlock.restrict(rules)
    finally:
        os.close(rules)


def _walls(spec: CellSpec, *, pidns: bool, network: bool) -> seccomp.Walls:
    """Return the restrictions of the seccomp filter for this cell.

    Without a mount namespace the sockets of service managers and container engines can be reached, and through
    them a process can leave the sandbox: `enforce` then allows no cell a unix socket.
    """
    thinks = not grants.may_write(spec)
    unix = has_unix_sockets(spec, pidns=pidns) and (not thinks or spec.kind == "cli")
    return seccomp.Walls(
        families=seccomp.families(network=network, unix=unix),
        thinks=thinks,
        execs=spec.kind != "agent",
        sees_others=not pidns,
        pretends=spec.kind == "cli",
    )


def has_unix_sockets(spec: CellSpec, *, pidns: bool) -> bool:
    """Return whether unix sockets in reach of the cell are only its own, or the mode does not mind."""
    return pidns or spec.sandbox.mode != "enforce"
