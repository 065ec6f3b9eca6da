"""Runs that are hard to judge: ten loops, and ten pieces of honest work that look alike, of each kind."""
