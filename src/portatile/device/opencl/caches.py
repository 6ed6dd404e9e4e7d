"""The data caches of this machine's first core, as Linux reports them; drivers report the size of only one of them."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

_CORE = Path("/sys/devices/system/cpu/cpu0/cache")
_SCALE = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


@cache
def data_caches(folder: Path = _CORE) -> tuple[int, ...]:
    """The bytes of each data cache, the nearest first; empty where the system does not report them."""
    caches = {}
    for index in sorted(folder.glob("index*")):
        try:
            level, kind, size = ((index / name).read_text().strip() for name in ("level", "type", "size"))
        except OSError:
            return ()
        if (spelled := re.fullmatch(r"(\d+)([KMG]?)", size)) and level.isdigit() and kind != "Instruction":
            caches[int(level)] = int(spelled[1]) * _SCALE[spelled[2]]
    return tuple(size for _, size in sorted(caches.items())) if sorted(caches) == list(range(1, len(caches) + 1)) else ()
