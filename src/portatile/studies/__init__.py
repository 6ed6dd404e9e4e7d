"""Questions about recorded results, each answered by a file that returns a tidy table and names its figures."""
