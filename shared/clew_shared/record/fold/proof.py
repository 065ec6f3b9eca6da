"""The fold of proofs."""

from __future__ import annotations

from clew_shared.record import proof_events as pr
from clew_shared.record.state import ProofState, State


def proof_made(state: State, e: pr.ProofMade, seq: int) -> None:
    same = state.proof is not None and (state.proof.world, state.proof.label) == (e.world, e.label)
    state.proof = ProofState(
        label=e.label,
        world=e.world,
        tree=e.tree,
        files=e.files,
        why=e.why,
        seq=seq,
        accepted=e.accepted,
        seconds=e.seconds,
        refused=state.proof.refused if state.proof and same else 0,
    )


def proof_refused(state: State, e: pr.ProofRefused, _seq: int) -> None:
    if state.proof:
        state.proof.refused += 1
        state.proof.asked, state.proof.reason = e.asked, e.reason


def proof_accepted(state: State, e: pr.ProofAccepted, _seq: int) -> None:
    state.proof_base = e.tree
    if state.proof:
        state.proof.accepted, state.proof.asked = e.by, False
