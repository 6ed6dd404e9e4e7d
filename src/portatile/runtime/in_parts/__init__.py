"""A problem computed in parts.

``tasks`` cuts a problem into parts. ``slabs`` and ``slab_pipeline`` stream the parts through one device's memory. ``broadcast`` uploads
host arrays that several devices need whole.
"""
