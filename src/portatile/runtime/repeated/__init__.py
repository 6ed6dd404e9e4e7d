"""Calls that come again.

``recorded`` finds a call by what its arrays say of themselves; ``recorded_steps`` and ``steps`` run it on one device,
``recorded_shares`` on several, ``factors`` says which factors it takes. ``replayed`` makes calls on the same arrays graphs,
``small_transfers`` copies small host arrays to a device and back.
"""
