"""What an agent's model is asked and told between its calls: the first request, the next one, what a check found."""
