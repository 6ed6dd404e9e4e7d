"""The final comparison: the fastest few configurations run in turns until they can be told apart.

``comparison`` is the parent's side and ``rounds`` the worker's; ``ranking`` says who wins, ``reserved_time`` how much of the
budget it takes.
"""
