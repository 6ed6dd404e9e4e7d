"""What is compiled, loaded and kept for one device.

``engine`` holds compiled and loaded problems. ``certify`` checks a configuration once more before its first use. ``deferred`` fills the
cache of binaries while the process is idle. ``untuned`` times several configurations of untuned problems that are repeated.
``memory_limit``, ``scratch`` (memory kept from call to call) and ``in_flight`` (host arrays that a queue may still use) concern memory.
"""
