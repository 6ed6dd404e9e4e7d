"""The corpus of a replay: random problems from a seed, each with configurations that are legal in the tree that draws them."""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from replaying import trees
from replaying.devices import DEVICES, SHIPPED, described

SIZES = (1, 2, 3, 4, 5, 7, 8, 12, 16, 17, 24, 31, 32, 33, 48, 64, 65, 96, 100, 127, 128, 129, 192, 200, 243, 256, 257, 320, 384, 500, 512)
SIZES = (*SIZES, 513, 640, 768, 777, 1000, 1024, 1536, 2000, 2048, 3000, 4096, 4097, 8192, 16384, 100_000, 1 << 20)
WEIGHTS = {"gemm": 4, "gemm_batched": 2, "triangular": 2, "convolution": 2}
"""How many times as many problems a workload has as one that is not named."""
_ELEMENTS = 1 << 28  # of an operand
_FLOPS = 1 << 42
_AWKWARD = 0.25  # of the problems: the workload's own edge cases, with padded rows and offsets
_LARGE = 0.3  # of the problems may have sizes of more than a thousand along every axis

Case = dict[str, Any]


def draw(seed: int, count: int, configs: int, part: slice) -> Iterator[Case]:
    """A part of about ``count`` problems, shared between workloads and devices."""
    names = trees.workload_names()
    total = sum(WEIGHTS.get(name, 1) for name in names)
    for name in names:
        for number in [*range(math.ceil(count * WEIGHTS.get(name, 1) / total))][part]:
            rng = np.random.default_rng([seed, zlib.crc32(name.encode()), number])
            yield from cases(name, number, [*DEVICES][number % len(DEVICES)], configs, rng)


def cases(name: str, number: int, device: str, configs: int, rng: np.random.Generator) -> Iterator[Case]:
    """A problem's default and some legal configurations."""
    workload = trees.workload(name)
    problem = random_problem(workload, rng)
    info = trees.device_info(described(device))
    base = {"id": f"{name}/{problem.dtype}/{device}/{number}", "workload": name, "device": device, "problem": trees.plain(problem)}
    yield {**base, "kind": "default", "config": None}
    for place, config in enumerate(workload.space(problem, info).scatter(rng, configs)):
        yield {**base, "kind": f"sampled-{place}", "config": dict(config)}


def recorded(root: Path) -> Iterator[Case]:
    """The configurations in the results that come with the package of the tree in ``root``, on the devices that they were measured on."""
    for path in sorted(root.glob("src/portatile/**/shipped/*.json")):
        for number, trial in enumerate(json.loads(path.read_text())):
            problem = trial["problem"]
            ident = f"{problem['workload']}/{problem['dtype']}/{path.stem}/{number}"
            base = {"id": ident, "workload": problem["workload"], "device": SHIPPED, "facts": trial["device"], "problem": problem}
            yield {**base, "kind": "shipped", "config": trial["config"]}


def random_problem(workload: Any, rng: np.random.Generator) -> Any:
    """A problem of any size, element type and options, packed or with padded rows and offsets."""
    while True:
        options = {name: values[int(rng.integers(len(values)))] for name, values in workload.options.items() if rng.random() < 0.7}
        dtype = str(rng.choice(workload.dtypes))
        limit = SIZES[-1] if rng.random() < _LARGE else 1024
        sizes = {name: int(rng.choice([size for size in SIZES if size <= limit])) for name in workload.sizes}
        try:
            problem = workload.problem(sizes, dtype, options)
            edges = workload.awkward(problem) if rng.random() < _AWKWARD else []
            if edges:
                return edges[int(rng.integers(len(edges)))]
            shapes = workload.shapes(problem)
            if max(math.prod(shape) for shape in shapes.values()) > _ELEMENTS or workload.flops(problem) > _FLOPS:
                continue
            return workload.problem(sizes, dtype, options, layouts(shapes, rng)) if rng.random() < 0.5 else problem
        except Exception as error:
            if "portatile" not in type(error).__module__:
                raise


def layouts(shapes: dict[str, tuple[int, ...]], rng: np.random.Generator) -> dict[str, Any]:
    """Row-major operands, some with padded rows, an offset or less alignment than the default."""
    chosen = {}
    for name, shape in shapes.items():
        row = shape[-1] + int(rng.choice([0, 0, 1, 3, 4, 8, 16])) if len(shape) > 1 else shape[-1]
        strides = [1]
        for length in reversed([*shape[1:-1], row] if len(shape) > 1 else []):
            strides.insert(0, strides[0] * max(length, 1))
        chosen[name] = trees.layout(strides, int(rng.choice([0, 0, 0, 1, 4, 16])), int(rng.choice([128, 128, 16, 8])))
    return chosen
