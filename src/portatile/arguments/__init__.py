"""Anything array-like as operands: shape, strides, dtype and place, checked once."""
