"""Spend a budget well: a folder for each process, and one for the end.

``search`` is the parent, which runs all Python callables and opens no device; ``worker`` is the child, which compiles, checks and
times; ``final`` compares the fastest few. They share ``protocol`` (messages), ``shared_arrays`` (operands that both map) and
``sensors`` (clocks, power). ``shipped`` holds results that come with the package; ``scripts/ship`` makes them.
"""
