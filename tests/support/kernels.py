"""A kernel that adds two vectors, on which the tests of users' own kernels try what may be said of one."""

from __future__ import annotations

from typing import Any

import numpy as np

from portatile.kernel import Kernel
from support.seeds import new_seed

ADD = """kernel void add(global const float *a, global const float *b, global float *c, int n) {
    for (int k = 0, i = get_global_id(0) * work; k < work && i < n; k++, i++)
        c[i] = a[i] + b[i];
}
"""
N = 1000


def given(**changes: Any) -> dict[str, Any]:
    """The arguments of a kernel that adds two vectors, some of them changed."""
    a, b = np.random.default_rng(new_seed("vectors")).random((2, N), np.float32)
    base: dict[str, Any] = {
        "source": ADD,
        "name": "add",
        "arguments": (a, b, np.zeros(N, np.float32), N),
        "parameters": {"block": [32, 64], "work": [1, 2]},
        "global_size": "n / work",
        "local_size": "block",
        "reference": lambda a, b: a + b,
    }
    return {**base, **changes}


def add(**changes: Any) -> Kernel:
    return Kernel(**given(**changes))
