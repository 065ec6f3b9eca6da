"""The sandbox of a cell: `probe` finds out what this kernel offers, a `Box` restricts the process.

It deals with paths, rights and system calls, not with goals, actions or protocols.
"""

import os
from dataclasses import dataclass

from clew_shared.files import closing
from clew_shared.wire.nursery import CellSpec, SandboxReport
from clew_worker.sandbox import grants, kernel, landlock, namespaces, seccomp

_ANY_PORT = "the coding agent may connect to any port: that takes Linux 6.7 (Landlock ABI 4)"
_OFFLINE = ("runbook", "cli")
"""Built-in agents that speak only to the daemon; a coding agent's CLI has a cell and a network of its own."""

_HINT = 'set [sandbox] mode = "best_effort" to run without it, or "off" to run without a sandbox'
_LACKS = "what an older one lacks is in docs/security.md, Mechanisms"
_NO_LANDLOCK = "Landlock is not available (kernel 5.13 or newer, enabled with lsm=landlock,...)"

_NO_NAMESPACES = (
    "no PID, mount and IPC namespace: user namespaces are not permitted here. A process of clew guards the workers "
    "instead; what that lacks is in docs/security.md, Mechanisms. To allow namespaces, whichever is in the way: sysctl "
    "kernel.unprivileged_userns_clone=1; sysctl user.max_user_namespaces=15000; an AppArmor profile with `userns` for "
    "clew's Python; in a container, unshare and mount in its seccomp and AppArmor profiles"
)
_NO_OVERLAY = (
    "no overlay: where a proof needs a view, the workspace is copied ([proof] view, docs/proof.md)"
)
_NO_SECCOMP = "no seccomp filter for this machine, only for x86_64 and aarch64: docs/security.md"


class SandboxError(Exception):
    """The spec requires what this kernel or this user cannot provide."""


def probe() -> SandboxReport:
    """Return which mechanisms this kernel and this user have; forks, so the process must be single-threaded."""
    abi = landlock.abi()
    userns = os.geteuid() != 0
    pidns = namespaces.possible(userns=userns, netns=False)
    netns = pidns and namespaces.possible(userns=userns, netns=True)
    overlays = pidns and namespaces.overlay_possible(userns=userns)
    old = f"Landlock ABI {abi} of {landlock.SCOPES_ABI} (Linux 6.12): {_LACKS}"
    landlocked = f"{_NO_LANDLOCK}: {_HINT}" if not abi else old
    sentences = (
        (abi >= landlock.SCOPES_ABI, landlocked),
        (pidns, _NO_NAMESPACES),
        (overlays, _NO_OVERLAY),
        (seccomp.available, _NO_SECCOMP),
    )
    fallback = "seccomp" if seccomp.available else "none"
    return SandboxReport(
        landlock_abi=abi,
        isolation="pidns" if pidns else "guard",
        userns=pidns and userns,
        network_off="netns" if netns else fallback,
        messages=tuple(text for works, text in sentences if not works),
    )


@dataclass(frozen=True)
class Box:
    """A cell and what this kernel has to confine it with."""

    spec: CellSpec
    report: SandboxReport

    @property
    def pidns(self) -> bool:
        """Whether it gets a PID namespace, with mounts of its own."""
        return self.spec.isolation == "auto" and self.report.isolation == "pidns"

    @property
    def netns(self) -> bool:
        """Whether it gets an empty network."""
        wanted = not self.spec.sandbox.network and self.spec.sandbox.mode != "off"
        return wanted and self.pidns and self.report.network_off == "netns"

    @property
    def unix(self) -> bool:
        """Whether unix sockets in reach of it are only its own, or the mode does not mind.

        Without a mount namespace the sockets of service managers and container engines can be reached, and through
        them a process can leave the sandbox: `enforce` then allows no cell a unix socket.
        """
        return self.pidns or self.spec.sandbox.mode != "enforce"

    @property
    def _network(self) -> bool:
        """Whether internet sockets are allowed; in a network namespace they reach nothing."""
        return self.netns or (self.spec.sandbox.network and self.spec.agent not in _OFFLINE)

    def close_off(self) -> None:
        """Show only what it may see in the mounts of this process."""
        spec, box = self.spec, self.spec.sandbox
        writable = (*grants.writable(spec), *(box.write if grants.may_write(spec) else ()))
        keep, own = (*box.write, *grants.visible(spec)), (*grants.own_folders(spec), spec.cwd)
        namespaces.close_off(keep, own=own, hide=box.hide, writable=writable)

    def lacks(self) -> list[str]:
        """Return the required mechanisms that are not available here, each as a phrase."""
        if self.spec.sandbox.mode == "off":
            return []
        found = [] if self.report.landlock_abi else [_NO_LANDLOCK]
        if not self.spec.sandbox.network and self.report.network_off == "none":
            found.append("network = false cannot be enforced (no network namespace, no seccomp)")
        return found

    def confine(self) -> list[str]:
        """Restrict this process, irrevocably; return what is missing, which in mode `enforce` is a SandboxError."""
        spec, enabled, lacking = self.spec, self.spec.sandbox.mode != "off", self.lacks()
        abi, acts, cli = self.report.landlock_abi, grants.may_write(spec), spec.kind == "cli"
        if lacking and spec.sandbox.mode == "enforce":
            raise SandboxError(f"{'; '.join(lacking)}. To allow it, {_HINT}.")
        if enabled and abi:
            refused = 0 if self._network else landlock.BIND_TCP | landlock.CONNECT_TCP
            refused |= 0 if acts else landlock.BIND_TCP
            refused |= landlock.CONNECT_TCP if cli else 0
            with closing(self._ruleset(spec, refused, spec.sandbox.ports)) as rules:
                landlock.restrict(rules)
        if enabled and os.geteuid() == 0:
            kernel.keep_capabilities(kernel.ACTING if acts else kernel.THINKING)
        elif self.pidns and self.report.userns:
            kernel.keep_capabilities(())
        if enabled:
            walls = seccomp.Walls(
                network=self._network,
                unix=self.unix and (acts or cli),
                thinks=not acts,
                execs=spec.kind != "agent",
                sees_others=not self.pidns,
                pretends=cli,
            )
            seccomp.confine(walls)
        return [*lacking, *([_ANY_PORT] if cli and abi < landlock.NETWORK_ABI else [])]

    def commands_rules(self) -> int:
        """Return the ruleset of the domain that an executor's commands are in, -1 where there is none.

        It is made before `confine`, while every path can be seen. Commands may do what the executor may, except to
        reach the store of snapshots.
        """
        box = self.spec.sandbox
        if self.spec.kind != "executor" or box.mode == "off" or not self.report.landlock_abi:
            return -1
        hide = (*box.hide, box.store) if box.store else box.hide
        hidden = box.model_copy(update={"store": "", "hide": hide})
        return self._ruleset(self.spec.model_copy(update={"sandbox": hidden}))

    def _ruleset(self, spec: CellSpec, refused: int = 0, ports: tuple[int, ...] = ()) -> int:
        try:
            granted = grants.grants(spec, private_shm=self.pidns)
            return landlock.ruleset(granted, refused, ports)
        except grants.TooManyPathsError as error:
            raise SandboxError(str(error)) from error
