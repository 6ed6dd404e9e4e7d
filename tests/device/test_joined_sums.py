"""Sums that several work-groups share, added by the last of them: the bits of two launches, run after run, on queues, after failures."""

from __future__ import annotations

import json
import sys
import threading
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from portatile import workloads
from portatile.device.base import Device, Queue
from portatile.errors import DeviceError
from portatile.execute import Executable
from portatile.flat_plans import flatten
from portatile.records import Arg, Launch, Plan, Problem, Source, Temporary, Value
from portatile.shipping import folder as folders
from portatile.workload import Inputs
from portatile.workloads import operands
from portatile.workloads.gemm.capabilities import joins
from portatile.workloads.gemm.forms.gpu import tail
from portatile.workloads.gemm.forms.gpu.point import pipeline
from portatile.workloads.gemm.forms.thin.point import column
from portatile.workloads.gemm.point import Point
from portatile.workloads.gemm_batched import GemmBatched
from portatile.workspaces import Workspaces, workspace
from support.checking import check, draft, modules, run, unread
from support.seeds import new_seed

pytestmark = [pytest.mark.thinned(1 / 3), pytest.mark.unoptimised]

GEMM = workloads.get("gemm")
_PIPELINE = pipeline(4, (8, 8), (1, 1), 8, 2, 4)
POINTS: dict[str, Point] = {
    "few parts": replace(_PIPELINE, SPLIT_K=3, RASTER=0),
    "many parts": replace(_PIPELINE, SPLIT_K=20, DOUBLE=0, RASTER=8),
    "parts that share k": replace(_PIPELINE, KB=16, STAGES=3, KG=2, SPLIT_K=4, DOUBLE=0),
    "as many parts as vectors allow": replace(pipeline(4, (8, 8), (3, 1), 32, 3, 4, 0), KG=4, SPLIT_K=2),
    "packed": replace(_PIPELINE, TCR=2, SPLIT_K=2, PACK_A=True, PACK_B=True, DOUBLE=1),
    "thin": column(2, (2, 2), 4, 16, 1, split=3),
    "thin, many parts": column(4, (4, 1), 2, 32, 1, split=18),
    "thin, many parts, nobody shares": column(1, (2, 1), 64, 1, 1, split=17),
    "thin, in stages": replace(column(1, (1, 2), 64, 1, 1, split=2), STAGES=2),
}


@pytest.fixture
def joining(device: Device) -> Device:
    if not joins(device.info):
        pytest.skip(f"{device.info.id} has no fences for it")
    return device


def problem(sizes: tuple[int, int, int], dtype: str = "float32", trans: str = "NN", pad: int = 0) -> Problem:
    options = {"trans_a": trans[0], "trans_b": trans[1]}
    bare = GEMM.problem(dict(zip("mnk", sizes, strict=True)), dtype, options)
    layout = {name: operands.padded(shape, pad, pad) for name, shape in GEMM.shapes(bare).items()}
    return GEMM.problem(bare.sizes, dtype, options, layout)


def drawn(name: str, rng: np.random.Generator, device: Device) -> tuple[Problem, Point]:
    """A point's own kind of problem, and the point for its type."""
    dtype = "float64" if device.info.fp64 and rng.integers(2) else "float32"
    trans, pad = "".join(rng.choice(list("NT"), 2)), int(rng.integers(3))
    point, k = POINTS[name], int(rng.integers(200, 700))
    if point.FORM == "thin":
        long, short = int(rng.integers(3, 150)), int(rng.integers(1, 5))
        turn = bool(rng.integers(2))
        return problem((short, long, k) if turn else (long, short, k), dtype, trans, pad), replace(point, TURN=turn)
    if dtype == "float64":
        point = replace(point, VL=2, TR=2, TC=2)
    return problem((int(rng.integers(1, 80)), int(rng.integers(1, 80)), k), dtype, trans, pad), point


@pytest.mark.parametrize("name", POINTS)
def test_the_last_group_adds_as_a_second_launch_would(joining: Device, name: str) -> None:
    """Right, canaries alive, counters left at zero, and every bit of the two launches."""
    rng = np.random.default_rng(new_seed(name))
    case, point = drawn(name, rng, joining)
    inputs = GEMM.inputs(case, rng)
    inputs = Inputs(inputs.operands, {"alpha": 1.0, "beta": 0.0})
    joined = replace(point, JOIN=True).config()
    verdict = check(joining, GEMM, case, joined, rng)
    assert verdict.ok, f"{case}: {verdict.message}"
    one, zeros = run(joining, GEMM, case, joined, inputs)
    two, _ = run(joining, GEMM, case, point.config(), inputs)
    assert zeros.ok, zeros.message
    assert one["c"].tobytes() == two["c"].tobytes(), case
    assert len(GEMM.plan(case, joined, joining.info).steps) == len(GEMM.plan(case, point.config(), joining.info).steps) - 1


@pytest.mark.parametrize(("alpha", "beta"), [(1.0, 0.0), (0.0, 0.0), (0.0, 1.25), (-2.5, 1.0)])
@pytest.mark.parametrize("name", ["few parts", "thin"])
def test_factors_decide_what_is_read(joining: Device, name: str, alpha: float, beta: float) -> None:
    """beta = 0 ignores a C of NaN, alpha = 0 ignores A and B of NaN."""
    rng = np.random.default_rng(new_seed(name))
    case = problem((41, 3 if name == "thin" else 30, 200), pad=2)

    verdict = check(joining, GEMM, case, replace(POINTS[name], JOIN=True).config(), rng, unread(GEMM, case, rng, alpha, beta))
    assert verdict.ok, verdict.message


def test_a_tail_joins_too(joining: Device) -> None:
    """The tiles after the last full wave are shared, in one launch fewer."""
    rng = np.random.default_rng(new_seed("tail"))
    case = problem((32 * joining.info.compute_units + 20, 30, 300), pad=int(rng.integers(2)))
    point = replace(_PIPELINE, TAIL=1)
    assert tail.cut(case, point, joining.info) is not None
    verdict = check(joining, GEMM, case, replace(point, JOIN=True).config(), rng)
    assert verdict.ok, verdict.message
    assert [
        step.kernel for step in GEMM.plan(case, replace(point, JOIN=True).config(), joining.info).steps if isinstance(step, Launch)
    ] == [
        "gemm",
        "gemm",
    ]


class OfTwo(GemmBatched):
    """Of no more than two problems to a launch."""

    most_groups = 2


def test_batches_join(joining: Device) -> None:
    """Every problem of a batch has counters of its own, and the next launch takes those of the one before it."""
    batched = OfTwo()
    rng = np.random.default_rng(new_seed("batch"))
    for name, sizes in (("few parts", (5, 33, 20, 200)), ("thin", (3, 30, 2, 200))):
        case = batched.problem(dict(zip(("batch", "m", "n", "k"), sizes, strict=True)))
        config = {key: value for key, value in replace(POINTS[name], JOIN=True).config().items() if key not in ("TXC", "TAIL")}
        assert len(batched.plan(case, config, joining.info).steps) > 1
        verdict = check(joining, batched, case, config, rng)
        assert verdict.ok, f"{name}: {verdict.message}"


class Product:
    """A product in device memory, run as often as wanted on any queue; its first result is what all others must be, bit for bit."""

    def __init__(self, device: Device, executable: Executable, case: Problem, rng: np.random.Generator) -> None:
        self.device, self.executable, self.case = device, executable, case
        m, n, k = (case.sizes[size] for size in "mnk")
        self.a, self.b = rng.random((m, k), np.float32), rng.random((k, n), np.float32)

    def on(self, queue: Queue, times: int = 1) -> np.ndarray:
        memory = {name: self.device.allocate(array.nbytes) for name, array in (("a", self.a), ("b", self.b))}
        result = np.empty((self.case.sizes["m"], self.case.sizes["n"]), np.float32)
        memory["c"] = self.device.allocate(result.nbytes)
        queue.upload(memory["a"], self.a)
        queue.upload(memory["b"], self.b)
        for _ in range(times):
            self.executable.run(queue, memory, {"alpha": 1.0, "beta": 0.0})
        queue.download(result, memory["c"])
        for held in memory.values():
            held.release()
        return result

    def right(self, got: np.ndarray) -> bool:
        return np.allclose(got, self.a.astype(np.float64) @ self.b, rtol=1e-4)


def products(device: Device, rng: np.random.Generator, common: Workspaces | None, *sizes: tuple[int, int, int]) -> list[Product]:
    made = []
    for size in sizes:
        case = problem(size)
        plan = flatten(GEMM.plan(case, replace(POINTS["few parts"], JOIN=True).config(), device.info), lambda called: Plan(()))
        made.append(
            Product(device, Executable(device, plan, partial(draft, device), modules=modules(device), workspaces=common), case, rng)
        )
    return made


def test_counters_last_from_run_to_run_and_from_shape_to_shape(joining: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are zeroed when they are made, and again only where a larger problem needs more of them; two queues have their own."""
    filled = []
    fill = type(joining.default_queue()).fill
    monkeypatch.setattr(type(joining.default_queue()), "fill", lambda *given: (filled.append(given[1].nbytes), fill(*given))[1])
    rng = np.random.default_rng(new_seed("runs"))
    common = Workspaces(joining)
    small, large = products(joining, rng, common, (33, 20, 200), (100, 130, 100))
    with joining.queue() as queue, joining.queue() as other:
        for product, times in ((small, 3), (large, 2), (small, 2), (large, 1)):
            assert product.right(product.on(queue, times)), product.case.sizes
        assert filled == [4 * 2, 4 * 4 * 5], "tiles of 32 x 32, four bytes each"
        assert small.right(small.on(other))
        assert len(filled) == 3
        common.release()
        assert small.right(small.on(queue))
        assert len(filled) == 4, "what was given back is made anew"
        common.release()


def test_two_queues_and_threads_at_once(joining: Device) -> None:
    rng = np.random.default_rng(new_seed("threads"))
    (product,) = products(joining, rng, Workspaces(joining), (40, 50, 400))
    first, lock, seen = product.on(joining.default_queue()), threading.Lock(), []
    run = product.executable.run

    def locked(*given: Any) -> None:  # as the engine does
        with lock:
            run(*given)

    product.executable.run = locked  # type: ignore[assignment,method-assign]

    def work(queue: Queue) -> None:
        seen.extend(product.on(queue, 5) for _ in range(5))

    with joining.queue() as one, joining.queue() as other:
        threads = [threading.Thread(target=work, args=(queue,)) for queue in (one, other)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert product.right(first)
    assert len(seen) == 10
    assert all(result.tobytes() == first.tobytes() for result in seen)


@pytest.mark.parametrize("shared", [True, False])
def test_a_broken_run_does_not_spoil_the_next(joining: Device, shared: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it may have left in the counters is not trusted, also by others that share them."""
    rng = np.random.default_rng(new_seed("broken"))
    common = Workspaces(joining) if shared else None
    product, other = products(joining, rng, common, (40, 50, 400), (20, 30, 300))
    with joining.queue() as queue:
        first, theirs = product.on(queue), other.on(queue)

        def broken(self: Queue, kernel: Any, global_size: Any, local_size: Any, args: Any, *rest: Any) -> None:
            self.fill(args[-1], b"\1", 0, 4)  # the first counter, as a kernel that was stopped half way
            raise DeviceError("out of luck")

        with monkeypatch.context() as patch:
            patch.setattr(type(queue), "launch", broken)
            with pytest.raises(DeviceError, match="out of luck"):
                product.on(queue)
        for one, before in ((product, first), (other, theirs)):
            assert one.on(queue, 2).tobytes() == before.tobytes()
            assert one.right(before)


def test_a_kernel_that_leaves_no_zeros_is_found_out(device: Device) -> None:
    text = "__kernel void count(__global int* counters) { counters[get_global_id(0)] += get_global_id(0) == 3; }"
    step = Launch(Source("count.cl", text), "count", (8, 1, 1), (8, 1, 1), (Arg("counters", role="temporary"),))
    with (
        device.queue() as queue,
        Executable(device, Plan((step,), (Temporary("counters", 32, zeroed=True),)), partial(draft, device), guard=True) as executable,
    ):
        executable.run(queue, {}, {})
        verdict = executable.check_temporaries(queue)
    assert not verdict.ok
    assert "left temporary counters without the zeros that the next run counts on: 1 bytes, the first 12" in verdict.message


def test_zeros_and_other_workspace_do_not_share_memory() -> None:
    plain, zeros = Plan((), (Temporary("w", 64), Temporary("v", 8))), Plan((), (Temporary("w", 32), Temporary("v", 16, zeroed=True)))
    assert workspace([plain, zeros]) == 64 + 8 + 16


def test_a_folder_counts_from_zero_in_every_call(joining: Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An exported kernel whose groups join: its loader zeroes the counters once, and every call is right."""
    if joining.info.backend != "opencl":
        pytest.skip("the loader runs in this process, through OpenCL")
    rng = np.random.default_rng(new_seed("folder"))
    case = problem((40, 50, 400))
    config: dict[str, Value] = replace(POINTS["few parts"], JOIN=True, SPLIT_K=2, RASTER=1, DOUBLE=0).config()
    assert GEMM.space(case, joining.info).violated(config) is None
    shipped = folders.write(tmp_path / "folder", [folders.ShippedItem(case, config, joining.info, "for a test")])
    assert shipped.left_out == []
    table = json.loads((tmp_path / "folder" / "kernels.json").read_text())
    assert [one["zeroed"] for one in table["problems"][0]["temporaries"]] == [False, True]
    monkeypatch.syspath_prepend(str(tmp_path / "folder"))
    monkeypatch.delitem(sys.modules, "loader", raising=False)
    import loader  # type: ignore[import-not-found]

    loaded = loader.load("gemm", m=40, n=50, k=400, device=joining.info.name)
    for _ in range(3):
        a, b = rng.random((40, 400), np.float32), rng.random((400, 50), np.float32)
        assert np.allclose(loaded(a=a, b=b), a @ b, rtol=1e-4)
    monkeypatch.delitem(sys.modules, "loader")
