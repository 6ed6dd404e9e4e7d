"""Recorded calls: a call that is repeated runs without planning.

``recorded`` finds a recorded call by the description of its arrays. ``recorded_steps`` and ``steps`` run it on one device,
``recorded_shares`` on several. ``factors`` checks the factors of a repetition. ``replayed`` turns calls on the same arrays into graphs.
``small_transfers`` copies small host arrays to a device and back.
"""
