"""Tuning over many machines, on Dask distributed (extra ``cluster``): workers say what devices they have, and trials go to those that fit.

What is sent is data: problems, configurations, kernel texts, binaries. Every worker runs the ordinary tuner, whose children open the device
and whose watchdog ends what hangs.
"""
