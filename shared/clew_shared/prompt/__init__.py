"""What a model is shown of a goal: its layout, its windows, and the messages of its transcript."""
