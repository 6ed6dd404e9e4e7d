"""Studies: a file for each question, which measures or replays, and returns a tidy table and its figures."""
