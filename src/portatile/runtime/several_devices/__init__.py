"""One problem shared by several devices.

``forecast`` decides whether to share it, from measured ``rates``, the timings in ``tries``, and ``expected`` times. ``several`` computes
it: ``pieces`` hands out work, to ``workers`` in ``device_threads`` or to devices fed ``in_turn``; ``at_once`` computes short problems in
``ready_parts``.
``remote_parts`` computes where operands lie on devices. ``splits`` records which device did what. ``batches`` and ``triangles`` describe
how a batch of orbitals and a triangle are shared.
"""
