"""Tuning over many machines, on Dask distributed (extra ``cluster``).

Workers advertise their devices, and trials go to workers with the device in question. Only data travel: problems, configurations, kernel
texts, binaries. Every worker runs the ordinary tuner, whose child processes open the device and whose watchdog ends a kernel that hangs.
"""
