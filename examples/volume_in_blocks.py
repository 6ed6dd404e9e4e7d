"""Filter a volume that need not fit into memory: blocks come from a file, are filtered on the device, and go to another file.

Run on a cluster, each worker filters its blocks on its own device: make a dask.distributed.Client first. By default the volume is small.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np

try:
    import dask.array as da
except ImportError:
    print("this example needs Dask: pip install '.[cluster]' in a clone")
    sys.exit()

from portatile.fleet import blocks
from portatile.wavelets import filters

EDGE = int(sys.argv[1]) if len(sys.argv) > 1 else 48  # 4096 is a volume of 512 GiB
BLOCK = min(EDGE // 2, 512)

with tempfile.TemporaryDirectory() as folder:
    shape = (EDGE, EDGE, EDGE)
    source = np.memmap(Path(folder, "volume"), np.float64, "w+", shape=shape)
    target = np.memmap(Path(folder, "filtered"), np.float64, "w+", shape=shape)
    for plane in range(EDGE):  # whatever wrote the file
        source[plane] = np.sin(2 * np.pi * plane / EDGE)

    magic = filters.MAGICFILTER
    volume = da.from_array(source, chunks=(BLOCK, BLOCK, BLOCK))
    filtered = blocks.convolve3d_separable(volume, magic.taps, lower=magic.lower, boundary="periodic")
    da.store(filtered, target, lock=False, scheduler="threads", num_workers=2)  # at most two blocks and their borders at a time

    count = filtered.npartitions
    middle = float(target[EDGE // 4, 0, 0])
    print(f"filtered {shape[0]}^3 points in {count} blocks; the sine's crest is {middle:.4f}")
    assert abs(middle - 1) < 0.02
    del source, target
