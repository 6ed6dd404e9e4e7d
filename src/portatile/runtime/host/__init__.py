"""Computation on the host, in place of a device.

``numpy_products``, ``numpy_converted``, ``numpy_level3`` and ``numpy_lines`` compute with NumPy. ``blas`` and ``blas_calls`` call the BLAS
library that NumPy is linked with. ``numpy_speed`` measures how fast that library is. ``host_race`` and ``host_blas`` time it against the
device and choose the faster one. ``host_calls`` keeps prepared host calls for repetition.
"""
