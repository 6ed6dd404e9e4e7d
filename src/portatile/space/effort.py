"""Limits for each way of finding configurations: random draws, counting, and descent."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Effort:
    """Limits, in tries. They decide how a configuration is found, never which are legal.

    ``draws``: random combinations of which one must be legal, or legal ones count as rare; where fewer than ``common`` of them are,
    they are counted rather than drawn if that is soon done. ``states``: partial configurations, when legal ones are counted;
    ``few_states`` where that must be done soon, ``fewest_states`` where it must take less than some descents. ``descents``: random
    ones, of which ``kept`` that reach the end are enough. ``fruitless``: partial configurations without a legal one, after which it is
    asked of each whether it can become one.
    """

    draws: int = 300
    common: int = 6
    states: int = 250_000
    few_states: int = 10_000
    fewest_states: int = 2500
    descents: int = 4000
    kept: int = 16
    fruitless: int = 5000
