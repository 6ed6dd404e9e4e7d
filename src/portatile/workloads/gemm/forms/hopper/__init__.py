"""The hopper form: the TMA fills local memory, and warp groups multiply straight from it; NVIDIA's compute capability 9.0."""

from __future__ import annotations

from portatile.workloads.gemm import units
from portatile.workloads.gemm.forms import Form
from portatile.workloads.gemm.forms.hopper import default
from portatile.workloads.gemm.forms.hopper.point import Hopper

__all__ = ["form"]

form = Form(Hopper, rank=14, default=default.point, facts=units.space_facts, contenders=default.contenders)
