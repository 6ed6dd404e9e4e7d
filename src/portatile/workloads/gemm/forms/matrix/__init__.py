"""The matrix form: sub-groups multiply fragments on matrix units, by the prelude's matrix multiply-add."""

from __future__ import annotations

from portatile.workloads.gemm import units
from portatile.workloads.gemm.forms import Form
from portatile.workloads.gemm.forms.matrix import default
from portatile.workloads.gemm.forms.matrix.point import MatrixUnits

__all__ = ["form"]

form = Form(MatrixUnits, rank=15, default=default.point, facts=units.space_facts)
