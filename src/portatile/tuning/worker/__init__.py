"""The worker, a child process: it compiles, checks and times what the search sends it."""
