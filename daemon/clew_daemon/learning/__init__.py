"""The playbook: strategies are learned from ended goals, chosen for new ones, exported and imported."""
