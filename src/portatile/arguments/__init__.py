"""Array-like arguments as operands of kernels: shape, strides, dtype and location, checked once."""
