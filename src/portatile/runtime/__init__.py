"""The runtime: from a request to kernel launches, with everything that is prepared for a device on the way.

``request`` is the record of one call. ``perform`` finds or prepares the problem of a request and starts it. ``separable`` does so for the
filters of a volume, as one plan. Each folder imports only from the folders listed before it:

- ``host``: computation on the host by NumPy and its BLAS, in place of a device.
- ``one_device``: compiled problems and memory that are prepared for one device and kept there.
- ``in_parts``: a problem cut into parts, and a pipeline that streams the parts through one device's memory.
- ``several_devices``: one problem shared by several devices.
- ``repeated``: recorded calls, which run again without planning.
"""
