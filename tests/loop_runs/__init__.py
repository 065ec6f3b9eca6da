"""Runs of each kind that is hard to judge: ten loops, and ten pieces of honest work that look alike."""

from tests.loop_runs import hypotheses, places, reads, receipts, searches, swings, thoughts

KINDS = {
    "reads": reads,
    "swings": swings,
    "receipts": receipts,
    "searches": searches,
    "hypotheses": hypotheses,
    "places": places,
    "thoughts": thoughts,
}
