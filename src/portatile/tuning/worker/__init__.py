"""The worker, a child process: it compiles, checks and times what the search sends it.

``bench`` loads, checks and times a variant; ``operands`` holds a case's memory on the device; ``forks`` becomes each compile
worker.
"""
