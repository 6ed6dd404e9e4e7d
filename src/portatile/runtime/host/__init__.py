"""Computed on the host, in place of a device.

``numpy_products``, ``numpy_converted``, ``numpy_level3`` and ``numpy_lines`` compute by NumPy, ``blas`` and ``blas_calls`` by the library
that it is linked with. ``numpy_speed`` says how fast that is, ``host_race`` and ``host_blas`` who is faster; ``host_calls`` keeps calls.
"""
