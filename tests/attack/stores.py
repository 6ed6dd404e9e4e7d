"""Result stores damaged at random: reading gives trials or a StoreError, routines go on, and repair keeps what it can."""

from __future__ import annotations

import random
import warnings

from attack import AttackError, Place
from portatile import repair, store
from portatile.errors import StoreError
from portatile.store import ResultStore
from support.trials import trial


def attempt(rng: random.Random, place: Place) -> str:
    """Flip, cut or insert bytes in a store of some trials."""
    path = place.folder / "results.sqlite"
    written = [trial(number, 1.0 + number) for number in range(rng.randint(1, 60))]
    with ResultStore(path) as made:
        for one in written:
            made.add(one)
    data = bytearray(path.read_bytes())
    for _ in range(rng.choice((1, 1, 3, 30))):
        at = rng.randrange(len(data))
        match rng.randrange(4):
            case 0:
                data[at] = rng.randrange(256)
            case 1:
                data[at : at + 64] = rng.randbytes(64)
            case 2:
                del data[at : at + rng.randint(1, 5000)]
            case _:
                data[at:at] = rng.randbytes(rng.randint(1, 500))
        if not data:
            break
    path.write_bytes(data)
    read = "read"
    try:
        with ResultStore.reader(path) as found:
            found.trials(), found.leaders()
    except StoreError:
        read = "refused"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        list(store.leaders_of(path, "gemm"))
    try:
        done = repair.repair(path)
    except StoreError:
        return f"{read}, left alone"
    with ResultStore(path) as found:
        found.trials()
        found.add(trial(999))
    if done is not None and not done.aside.exists():
        raise AttackError("the damaged file is gone")
    return f"{read}, repaired" if done is not None else read
