"""Kernels of attacks are compiled as those of the device tests."""

from support.unoptimised import optimiser

__all__ = ["optimiser"]
