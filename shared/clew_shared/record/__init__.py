"""What is on record: the events, and the state of a goal as a fold over them. Pure: no clock, no file, no process."""
