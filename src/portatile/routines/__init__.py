"""The functions that users call: linear algebra, convolutions and sums on their own arrays."""
