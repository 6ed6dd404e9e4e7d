"""The functions that users call on their own arrays: linear algebra, convolutions and sums."""
