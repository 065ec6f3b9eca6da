"""The inbox: from a dropped file to an accepted goal, or to a rejection that says why."""
