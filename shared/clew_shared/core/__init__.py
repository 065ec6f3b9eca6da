"""One goal without I/O: commands and the time go in, events and answers come out."""
