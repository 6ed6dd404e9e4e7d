"""The search, in the parent process: it chooses configurations, supervises the workers and stores the trials."""
