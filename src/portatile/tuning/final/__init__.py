"""The final comparison: the fastest few configurations run in turns until they can be told apart."""
