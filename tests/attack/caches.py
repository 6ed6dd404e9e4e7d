"""Caches damaged at random, portatile's and PoCL's: what is loaded from them is right, or is compiled anew."""

from __future__ import annotations

import random

from attack import Place, children

_SCRIPT = """
import random, sys
from attack import calls
problems = calls.draw(random.Random(int(sys.argv[2])), sys.argv[1] or None, 24, name="matmul")
out = problems.outputs.views[0]
problems.run(0, out)
assert not problems.wrong(0, out).any()
"""


def attempt(rng: random.Random, place: Place) -> str:
    """Fill a cache, damage some of its files, and use it again in another process."""
    seed = rng.getrandbits(32)
    children.run(place, _SCRIPT, seed, shared_cache=False)
    files = [path for path in sorted((place.folder / "cache").rglob("*")) if path.is_file()]
    for path in rng.sample(files, min(len(files), rng.randint(1, 4))):
        data = bytearray(path.read_bytes())
        if rng.random() < 0.3:
            del data[rng.randrange(len(data) + 1) :]
        elif data:
            for _ in range(rng.choice((1, 20))):
                data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        path.write_bytes(data)
    children.run(place, _SCRIPT, seed, shared_cache=False)
    return "right"
