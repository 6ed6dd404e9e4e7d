"""The run-time: from a request to its launches, and what is prepared for a device on the way.

- One computation: ``request`` travels, ``perform`` finds or prepares it, ``engine`` holds what is prepared on a device.
  ``certify`` checks a configuration once more before its first use, ``deferred`` fills the cache of binaries when nobody waits,
  ``untuned`` times untuned products that come again. ``separable``: the filters of a volume as one plan.
- Calls that come again: ``recorded`` finds a call by what its arrays say, ``recorded_steps`` and ``steps`` run it, ``factors``
  says which factors it takes. ``replayed`` makes calls on the same arrays graphs, ``small_transfers`` copies small host arrays to
  a device and back.
- Computed on the host: ``numpy_products``, ``numpy_converted``, ``numpy_level3`` and ``numpy_lines`` by NumPy, ``blas`` and
  ``blas_calls`` by the library that it is linked with. ``numpy_speed`` says how fast that is, ``host_race`` and ``host_blas`` who
  is faster, ``host_calls`` keeps calls.
- Memory: ``memory_limit``, ``scratch`` (kept from call to call), ``in_flight`` (host arrays that a queue may still use).
- In parts: ``tasks`` cuts a problem, ``slabs`` and ``slab_pipeline`` send the parts through one device's memory.
- Over several devices: ``forecast`` decides, by ``rates`` and ``tries``; ``several`` computes, by ``pieces`` with
  ``device_threads`` or ``in_turn``, or ``at_once`` for short problems, in ``ready_parts``, which ``recorded_shares`` finds again;
  ``broadcast`` and ``remote_parts`` bring operands, ``splits`` remembers who did what. ``batches`` shares orbitals,
  ``triangles`` shares triangles.
"""
