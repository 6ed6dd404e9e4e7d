"""Measurements in this process: the highest throughput of a device's memory, link and arithmetic, and the phases of a single run."""
