"""Export of kernels to a folder that runs without portatile, and import of another machine's results."""
