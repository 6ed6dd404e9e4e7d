"""The search for fast configurations: a folder for the parent process, one for its workers, and one for the final comparison.

``search`` is the parent, which runs all Python callables and opens no device; ``worker`` is the child, which compiles, checks and
times; ``final`` compares the fastest few. They share ``protocol`` (messages), ``shared_arrays`` (operands that both map) and
``sensors`` (clocks, power). ``shipped`` holds results that come with the package; ``scripts/ship`` makes them.
"""
