"""The run-time: from a request to its launches, and what is prepared for a device on the way.

``request`` is the record of one call. ``perform`` finds or prepares its problem and starts it. ``separable`` does so for the filters of
a volume, as one plan. The folders import from those named before them:

- ``host``: what is computed on the host by NumPy and its BLAS, in place of a device.
- ``one_device``: what is made ready on a device, and kept there.
- ``in_parts``: a problem cut into parts, and parts that pass through one device's memory.
- ``several_devices``: a problem shared by devices.
- ``repeated``: calls that come again, above all others.
"""
