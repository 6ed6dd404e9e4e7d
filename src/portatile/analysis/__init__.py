"""Explaining a number: what a kernel is made of, how far it is from the ceilings, how portable it is."""
