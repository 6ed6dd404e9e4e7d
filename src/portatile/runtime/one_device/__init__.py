"""What is made ready on a device.

``engine`` holds problems that are compiled and loaded. ``certify`` checks a configuration once more before its first use, ``deferred``
fills the cache of binaries when nobody waits, ``untuned`` times untuned products that come again. Memory: ``memory_limit``, ``scratch``
(kept from call to call), ``in_flight`` (host arrays that a queue may still use).
"""
