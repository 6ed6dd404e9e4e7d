"""Stream-K, by the text that kernels have of it: each tile of k is done once, and the last of the groups of a tile adds up their sums."""

from __future__ import annotations

from pathlib import Path

import jinja2
import numpy as np
import pytest

from portatile import program
from portatile.device.base import Device
from portatile.records import Source
from portatile.workloads.gemm import forms
from support.seeds import new_seed

TEXT = """
{% from "join.cl" import arrival with context %}
{% from "stream.cl" import sharers, sharing, spans, work with context %}
{{ arrival() }}
{{ sharing() }}
// a group is one work-item; the step s of tile t counts for 1000 t + s
__kernel void walk(const int down, const int across, const int count, __global int* done, __global int* planes,
                   volatile __global uint* counters, __global int* sums, __global int* stored)
{
{{ spans() }}
{{ work("next") }}
        int sum = 0;
        for (int s = first_step; s < last_step; ++s) {
            atomic_inc(&done[at * count + s]);
            sum += 1000 * at + s;
        }
        if (last_step - first_step < count) {
{{ sharers() }}
            planes[2 * own + (first_step == 0)] = sum;
            mem_fence(CLK_GLOBAL_MEM_FENCE);
            if (own < from || own > to || !arrives_last(counters + at, to - from + 1))
                continue;
            sum = 0;
            for (int g = from; g <= to; ++g)
                sum += planes[2 * g + (g == from)];
        }
        sums[at] = sum;
        atomic_inc(&stored[at]);
    }
}
"""


def rendered() -> Source:
    environment = jinja2.Environment(
        undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True, loader=jinja2.FileSystemLoader(Path(forms.__file__).parent)
    )
    return Source("walk.cl", environment.from_string(TEXT).render())


def test_every_step_of_every_tile_is_done_once(device: Device) -> None:
    """Fewer tiles than groups, as many, whole rounds and parts of one; groups that begin and end within a tile."""
    if not device.info.can.ordered_groups:
        pytest.skip("groups that share sums have them added by a second launch here")
    rng = np.random.default_rng(new_seed("walk"))
    cases = [
        (1, 1, 1, 1),
        (1, 1, 7, 7),
        (1, 1, 100, 13),
        (3, 1, 8, 4),
        (4, 3, 8, 12),
        (4, 3, 5, 5),
        (2, 66, 3, 131),
        (2, 67, 3, 132),
        (8, 8, 1, 7),
    ]
    cases += [tuple(int(rng.integers(1, most)) for most in (9, 9, 20, 60)) for _ in range(20)]  # type: ignore[misc]
    kernel = device.load(program.build(rendered(), device.target, None)).kernel("walk")
    queue = device.default_queue()
    for down, across, count, groups in cases:
        tiles = down * across
        groups = min(groups, tiles * count)
        arrays = [np.zeros(size, np.int32) for size in (tiles * count, 2 * groups, tiles, tiles, tiles)]
        memories = [device.allocate(array.nbytes) for array in arrays]
        for memory, array in zip(memories, arrays, strict=True):
            queue.upload(memory, array)
        queue.launch(kernel, (groups, 1, 1), (1, 1, 1), [*map(np.int32, (down, across, count)), *memories])
        for memory, array in zip(memories, arrays, strict=True):
            queue.download(array, memory)
            memory.release()
        done, _, counters, sums, stored = arrays
        case = f"{down} x {across} tiles of {count} steps by {groups} groups"
        assert (done == 1).all(), case
        assert (stored == 1).all(), case
        assert not counters.any(), case
        assert (sums == [count * 1000 * tile + count * (count - 1) // 2 for tile in range(tiles)]).all(), case
