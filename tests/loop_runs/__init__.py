"""Runs of each kind that is hard to judge: ten loops, and ten pieces of honest work that look alike."""

from tests.loop_runs import hypotheses, searches, swings

KINDS = {"swings": swings, "searches": searches, "hypotheses": hypotheses}
