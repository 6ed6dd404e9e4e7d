"""Spend a budget well: the loop, the workers, and the watch over them."""
