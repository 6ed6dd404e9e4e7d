"""What consists of products, in each precision that these are formed in: within the workload's bound, nothing else touched."""

from __future__ import annotations

import numpy as np
import pytest

import portatile
from portatile import workloads
from portatile.device.base import Device
from portatile.workloads import precisions
from support.checking import check
from support.seeds import new_seed

pytestmark = pytest.mark.unoptimised

COMPOSED = ("symm", "syrk", "syr2k", "trmm", "triangular")


@pytest.fixture(autouse=True)
def double(device: Device) -> None:
    if not device.info.fp64:
        pytest.skip(f"{device.info.name} has no double precision")


@pytest.mark.drawn(1 / 2)
@pytest.mark.parametrize("name", COMPOSED)
def test_results_are_within_the_bound(device: Device, name: str) -> None:
    """Of random options, with NaN in what must not be read: the other triangle, and C where beta is 0; and what surrounds operands."""
    workload, rng = workloads.get(name), np.random.default_rng(new_seed(name))
    dtype = str(rng.choice(["float32", "float64", "complex64"]))
    others = {"3m"} if not dtype.startswith("complex") else set()
    choices = [choice for choice in precisions.choices(name) if choice not in others | ({"tf32"} if dtype != "float32" else set())]
    options = {option: values[int(rng.integers(len(values)))] for option, values in workload.options.items()}
    options["precision"] = str(rng.choice(choices))
    problem = workload.awkward(workload.problem(dict.fromkeys(workload.sizes, 64), dtype, options))[
        3 if name in ("syrk", "triangular") else 2
    ]
    config = workload.default(problem, device.info)
    if name == "triangular":
        config = {**config, "NB": 16, "IB": 8, "PANEL": 8}  # so that there are products
    if name == "syrk" and options["precision"] == "emulated":
        config = {**config, "NB": 32}
    broken = workload.space(problem, device.info).violated(config)
    assert broken is None, broken
    verdict = check(device, workload, problem, config, rng)
    assert verdict.ok, f"{verdict.message}\n{config}\n{problem}"


def test_bias_and_activation_follow_a_product_of_any_precision(device: Device) -> None:
    """Twice: the second call is recorded, and has other factors. C is NaN where it must not be read."""
    rng = np.random.default_rng(new_seed("bias"))
    a, b, c, bias = (rng.standard_normal(shape) for shape in ((9, 7), (5, 7), (9, 5), (9, 1)))
    for alpha, beta in ((0.5, 0.0), (-2.0, 0.75)):
        old = np.full_like(c, np.nan) if beta == 0 else c
        options = {"alpha": alpha, "beta": beta, "trans_b": "T", "bias": bias, "activation": "relu", "device": device.info.id}
        expected = alpha * a @ b.T + (beta * c if beta else 0) + bias
        scale = abs(alpha) * np.abs(a) @ np.abs(b.T) + abs(beta * c) + np.abs(bias)
        for precision in ("emulated", "reproducible"):
            product = portatile.gemm(a, b, old, precision=precision, out=np.empty((9, 5), order="F"), **options)
            assert (np.abs(product - np.maximum(expected, 0)) <= (7 + 3 + 1 + 7) * 2.0**-53 * scale).all()


def test_each_matrix_of_a_stack_has_the_precision_that_is_asked_for(device: Device) -> None:
    rng = np.random.default_rng(new_seed("stacks"))
    a, c = rng.standard_normal((2, 6, 4)), rng.standard_normal((6, 6))
    result = portatile.syrk(a, c, beta=0.5, precision="reproducible", device=device.info.id)
    alone = [portatile.syrk(one, c, beta=0.5, precision="reproducible", device=device.info.id) for one in a]
    assert result.tobytes() == np.stack(alone).tobytes()
    assert (np.triu(result, 1) == np.triu(c, 1)).all()
    triangle = a[:, :4] + 4 * np.eye(4)
    solved = portatile.trsm(triangle, a[:, :4], precision="emulated", device=device.info.id)
    np.testing.assert_allclose(np.tril(triangle) @ solved, a[:, :4], rtol=1e-12, atol=1e-12)
