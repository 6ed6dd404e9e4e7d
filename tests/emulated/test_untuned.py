"""What is timed when a product comes to a GPU again: the estimate's configurations, by the packed launches of later calls."""

from __future__ import annotations

import numpy as np
import pytest

from portatile import workloads
from portatile.device.base import Device
from portatile.device.buffer import Buffer
from portatile.runtime.one_device import untuned
from portatile.runtime.one_device.engine import Engine
from portatile.workloads.gemm import Gemm


def test_a_product_is_timed_once(gpu: Device, own_directories: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PORTATILE_TIME_UNTUNED", "on")
    monkeypatch.setattr(untuned, "_AHEAD", 1 << 12)
    monkeypatch.setattr(untuned, "_HEATS", ((1, 0),))
    monkeypatch.setattr(untuned, "_LONG", float("inf"))
    gemm = workloads.get("gemm")
    problem = gemm.problem({"m": 6, "n": 5, "k": 7})
    offered = gemm.contenders(problem, gpu.info)
    assert len(offered) > 3
    monkeypatch.setattr(Gemm, "contenders", lambda self, problem, info: offered[:2])
    ran: list[int] = []
    burst = untuned.back_to_back
    monkeypatch.setattr(untuned, "back_to_back", lambda queue, clock, run, runs: ran.append(1) or burst(queue, clock, run, 1))
    engine = Engine(gpu)
    prepared = engine.prepare_again(problem)
    assert len(ran) == 4 * len(set(map(str, [prepared.choice.config, *offered[:2], gemm.default(problem, gpu.info)])))
    rng = np.random.default_rng(5)
    a, b = rng.standard_normal((6, 7), np.float32), rng.standard_normal((7, 5), np.float32)
    arrays = {"a": a, "b": b, "c": np.full((6, 5), np.nan, np.float32)}
    memories = {name: Buffer.from_numpy(array, gpu).memory for name, array in arrays.items()}
    prepared.run(gpu.default_queue(), memories, {"alpha": 1.0, "beta": 0.0})
    out = np.empty((6, 5), np.float32)
    gpu.default_queue().download(out, memories["c"])
    np.testing.assert_allclose(out, a.astype(np.float64) @ b, rtol=1e-5, atol=1e-6)
    ran.clear()
    assert Engine(gpu).prepare_again(problem).choice == prepared.choice
    assert ran == []
