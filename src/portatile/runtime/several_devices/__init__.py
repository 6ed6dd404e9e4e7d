"""One problem shared by several devices.

``forecast`` decides whether it is, by ``rates`` and ``tries``, what is ``expected``. ``several`` computes it: by ``pieces``, with
``device_threads`` or ``in_turn``; ``at_once`` computes short problems, in ``ready_parts``. ``remote_parts`` computes where operands lie on
devices, ``splits`` remembers who did what. ``batches`` shares orbitals, ``triangles`` shares triangles.
"""
