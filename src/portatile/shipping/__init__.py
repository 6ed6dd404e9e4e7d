"""What leaves this machine and what arrives: kernels in a folder that runs by itself, results from another machine."""
