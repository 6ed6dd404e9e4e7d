"""The vnni form: bfloat16 and int8 on processors with an instruction that adds up the products of two or four neighbours along k."""

from __future__ import annotations

from portatile.workloads.gemm.forms import Form
from portatile.workloads.gemm.forms.vnni import default
from portatile.workloads.gemm.forms.vnni.point import Vnni, space_facts

__all__ = ["form"]

form = Form(Vnni, rank=5, default=default.point, facts=space_facts)
