"""Two GPUs of one machine: copies between them, and computations that they share, with operands on the host, on one, and on both."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import portatile
from portatile import Buffer, processes, wavelets
from portatile import device as devices
from portatile.device.base import Device
from portatile.runtime.several_devices import forecast
from portatile.studies import contexts
from portatile.wavelets import over_devices
from support.seeds import new_seed

Place = Callable[[Any], Any]
"""Puts an array where an operand shall lie."""


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch) -> list[Device]:
    """Two pieces of hardware through one back end, which share however small a problem is."""
    found: dict[str, dict[str, Device]] = {}
    for one in devices.devices():
        if one.info.kind == "gpu":
            found.setdefault(one.info.backend, {}).setdefault(one.info.physical_id or one.info.id, one)
    pair = next((list(members.values())[:2] for members in found.values() if len(members) > 1), None)
    if pair is None:
        pytest.skip("there are no two GPUs that this process may use; pytest-xdist gives each of its processes one")
    monkeypatch.setattr(forecast, "_quickest", lambda together, alone: "")
    monkeypatch.setattr(forecast, "_TINY", 0)
    monkeypatch.setattr(forecast, "_LITTLE", 0.0)
    monkeypatch.setattr(over_devices, "_settled", {})
    return pair


def drawn(seed: int, *shape: int, dtype: str = "float32") -> Any:
    return (np.random.default_rng(seed).random(shape) - 0.5).astype(dtype)


def product(seed: int, place: Place, device: Any) -> Any:
    return portatile.matmul(place(drawn(seed, 1333, 265)), place(drawn(seed + 1, 265, 329)), device=device)


def sum_of_products(seed: int, place: Place, device: Any) -> Any:
    shapes = (700, 501), (700, 390), (501, 390)
    a, b, c = (place(drawn(seed + number, *shape, dtype="float64")) for number, shape in enumerate(shapes))
    return portatile.gemm(a, b, c, alpha=1.5, beta=-0.5, trans_a="T", out=c, device=device)


def stack(seed: int, place: Place, device: Any) -> Any:
    return portatile.matmul(place(drawn(seed, 90, 20, 30)), place(drawn(seed + 1, 90, 30, 10)), device=device)


def solution(seed: int, place: Place, device: Any) -> Any:
    a = np.tril(drawn(seed, 60, 60, dtype="float64")) + 4 * np.eye(60)
    return portatile.trsm(place(a), place(drawn(seed + 1, 60, 900, dtype="float64")), device=device)


def potential(seed: int, place: Place, device: Any) -> Any:
    return portatile.coulomb_potential(place(drawn(seed, 40, 4)), (9, 133, 131), 0.3, origin=(-5, -5, 1), device=device)


def image(seed: int, place: Place, device: Any) -> Any:
    operands = [place(drawn(seed + number, 60)) for number in range(5)] + [place(drawn(seed + number, 5003)) for number in range(3)]
    return portatile.mri_q(*operands, device=device)[0]


def filtered(seed: int, place: Place, device: Any) -> Any:
    return portatile.convolve1d(place(drawn(seed, 500, 400)), [0.25, 0.5, 0.25], lower=-1, device=device)


def orbitals(seed: int, place: Place, device: Any) -> Any:
    return wavelets.magicfilter3d(place(drawn(seed, 7, 32, 32, 32, dtype="float64")), device=device)


def energies(seed: int, place: Place, device: Any) -> Any:
    psi, field = place(drawn(seed, 7, 16, 16, 16, dtype="float64")), place(drawn(seed + 1, 16, 16, 16, dtype="float64"))
    return wavelets.kinetic(wavelets.apply_potential(psi, field, device=device), device=device)


CASES = (product, sum_of_products, stack, solution, potential, image, filtered, orbitals, energies)
PLACES = {"host": (), "first": (0,), "second": (1,), "both": (0, 1, 1)}


def placing(gpus: list[Device], which: tuple[int, ...]) -> Place:
    """Operands by turns on the GPUs ``which``; on the host for none."""
    count = iter(range(1000))

    def place(array: Any) -> Any:
        return Buffer.from_numpy(array, gpus[which[next(count) % len(which)]]) if which else array

    return place


def on_host(found: Any) -> Any:
    return found.numpy() if isinstance(found, Buffer) else np.array(found)


@pytest.mark.parametrize("where", PLACES)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_the_result_is_that_of_one_gpu(gpus: list[Device], case: Callable[[int, Place, Any], Any], where: str) -> None:
    seed = new_seed(case.__name__)
    ids, which = [one.info.id for one in gpus], PLACES[where]
    expected = on_host(case(seed, placing(gpus[:1], (0,)), None))
    for _ in range(3):  # the second and third know how fast each is
        found = case(seed, placing(gpus, which), ids)
        assert isinstance(found, Buffer) == bool(which)
        np.testing.assert_allclose(on_host(found), expected, rtol=2e-4, atol=1e-5 * float(np.abs(expected).max()))


@pytest.mark.parametrize("nbytes", [1, 4099, (1 << 25) + 3])
def test_what_goes_from_one_to_the_other_comes_back_whole(gpus: list[Device], nbytes: int) -> None:
    """Both ways at once, also from the middle of a buffer."""
    kept = np.random.default_rng(new_seed(str(nbytes))).integers(0, 256, nbytes + 5, np.uint8)

    def there_and_back(one: Device, other: Device) -> bool:
        begun = Buffer.from_numpy(kept, one)[5:]
        for _ in range(3):
            begun = begun.to_device(other).to_device(one)
        return bool((begun.numpy() == kept[5:]).all())

    with ThreadPoolExecutor(2) as pool:
        assert all(pool.map(there_and_back, gpus, gpus[::-1]))


@pytest.mark.parametrize("which", [(0, 0), (0, 1), (1, 0)])
def test_tensors_on_both(gpus: list[Device], which: tuple[int, int]) -> None:
    """The result is beside the first operand; what other streams of its library wrote is there."""
    torch = pytest.importorskip("torch")
    if gpus[0].info.backend != "cuda" or torch.cuda.device_count() < 2:
        pytest.skip("PyTorch reaches no two GPUs")
    seed = new_seed(str(which))
    a, b = drawn(seed, 1333, 265), drawn(seed + 1, 265, 329)
    there = [torch.from_numpy(array).to(f"cuda:{place}") for array, place in zip((a, b), which, strict=True)]
    for _ in range(3):
        found = portatile.matmul(*there, device=[one.info.id for one in gpus])
        assert found.device == there[0].device
        np.testing.assert_allclose(found.cpu().numpy(), a @ b, rtol=2e-4, atol=1e-4)


def test_a_context_of_both(gpus: list[Device]) -> None:
    """Programs from source and from binary, events and memory of one serve the other."""
    found = [one for one in devices.devices() if one.info.kind == "gpu" and one.info.backend == "opencl"]
    pair = list({one.info.physical_id or one.info.id: one for one in found}.values())[:2]
    if len(pair) < 2:
        pytest.skip("OpenCL reaches no two GPUs")
    for kind, queues in ((contexts.SHARED, contexts.TWO), (contexts.SHARED, contexts.OUT_OF_ORDER), (contexts.ONE_EACH, contexts.IN_ORDER)):
        row = contexts._measured(contexts.ContextsRow("both", 2, "", kind, queues, contexts.PINNED, 4, 3), pair, 1)
        assert row.status == "ok"


_FIRST_PRODUCTS = """
import sys
import numpy as np
import portatile
from portatile import device
from portatile.runtime.several_devices import forecast

forecast._quickest, forecast._LITTLE = (lambda together, alone: ""), 0.0
pair = [device.get(name) for name in sys.argv[1:]]
rng = np.random.default_rng(0)
a, b = (np.concatenate([rng.random((64, 4096))] * 64) for _ in range(2))
for _ in range(4):
    found = portatile.matmul(a, b, device=sys.argv[1:])
    np.testing.assert_allclose(found[::512], a[::512] @ b, rtol=1e-12)
    for one in pair:
        one.release()
"""


def test_the_first_product_of_new_contexts(gpus: list[Device]) -> None:
    """Operands that both need come over both links, and from each other, while each computes: what is made for that is made anew."""
    command = [sys.executable, "-c", _FIRST_PRODUCTS, *(one.info.id for one in gpus)]
    completed = subprocess.run(command, env=processes.environment(), capture_output=True, text=True, check=False, timeout=90)
    assert completed.returncode == 0, completed.stderr[-3000:]
