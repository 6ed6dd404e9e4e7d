"""The search, in the parent process: what is tried next, the watch over the workers, and what the store learns of it."""
