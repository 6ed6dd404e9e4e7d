"""Measuring in this process: what a device's memory, link and arithmetic reach at best, and where a single run's time goes."""
