"""The search, in the parent process: it chooses configurations, supervises the workers and stores the trials.

- The loop: ``request`` (what is asked), ``tuner``, ``outcomes`` (the trials so far), ``result_table``, ``objective``,
  ``spending`` (of the budget), ``deadlines`` (of each phase).
- What is tried: ``first_configs``, found in ``background``; ``foreign_starts`` from other tuners; ``stored_trials`` take the
  place of evaluations.
- What workers need: ``planner`` (operands, references, plans, bounds), ``host_memory``, ``deferred_checks`` (edge cases of fast
  variants only).
- Workers: ``supervisor``, ``backlog``, ``compile_workers``, ``worker_process``, ``worker_forks``, ``worker_failure``,
  ``external_failures``.
- Several searches: ``many_devices``, ``cooperation``, ``agreement`` (of alike devices), ``concurrent_searches``; ``shapes``,
  ``shapes_file`` and ``held_out`` for many shapes; ``replay`` without a device.
- After and beside it: ``oclgrind`` (races in the winner); ``status_line``, ``progress_line`` and ``watching`` show progress.
"""
