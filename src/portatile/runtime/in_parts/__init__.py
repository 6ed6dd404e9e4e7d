"""A problem in parts.

``tasks`` cuts it, ``slabs`` and ``slab_pipeline`` send the parts through one device's memory, ``broadcast`` brings what several devices
need whole.
"""
