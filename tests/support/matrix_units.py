"""GEMM on matrix units without a device: NVIDIA devices on paper, problems, and the launches that they get."""

from __future__ import annotations

from dataclasses import replace

import pytest

from portatile import workloads
from portatile.capabilities import of_nvidia, with_warp_groups
from portatile.device.cuda import compiler
from portatile.device.cuda.info import capabilities
from portatile.records import DeviceInfo, Launch, Problem
from portatile.workloads.gemm.point import Point
from support.devices import on_paper

WORKLOAD = workloads.get("gemm")
HOPPER = replace(on_paper("gpu"), capabilities=capabilities("sm_90"))
AMPERE = replace(on_paper("gpu", "sm_80"), capabilities=capabilities("sm_80"))
OPENCL = replace(on_paper("gpu"), backend="opencl", capabilities=with_warp_groups(of_nvidia("sm_90"), "sm_90"))
needs_nvrtc = pytest.mark.skipif(compiler.available() is not None, reason="NVRTC is missing")


def problem(size: int, dtype: str, trans: str = "NN") -> Problem:
    """A square product."""
    return WORKLOAD.problem({"m": size, "n": size, "k": size}, dtype, {"trans_a": trans[0], "trans_b": trans[1]})


def launches(case: Problem, point: Point) -> list[Launch]:
    """The launches of a configuration on a Hopper GPU."""
    return [step for step in WORKLOAD.plan(case, point.config(), HOPPER).steps if isinstance(step, Launch)]


def product(case: Problem, point: Point, device: DeviceInfo) -> Launch:
    """The launch that multiplies."""
    return next(step for step in WORKLOAD.plan(case, point.config(), device).steps if isinstance(step, Launch) and step.kernel == "gemm")
