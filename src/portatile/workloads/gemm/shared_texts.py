"""Kernel texts that all forms share: those of launches before or after the product."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from portatile.device.target import EARLY_START
from portatile.records import Problem, Source, Value
from portatile.template import load
from portatile.workloads.gemm import reals
from portatile.workloads.gemm.passing import real
from portatile.workloads.gemm.point import Point

_FOLDER = str(Path(__file__).parent / "forms" / "shared")  # the texts lie beside it


def types(problem: Problem) -> dict[str, Any]:
    """The definitions of a problem's types for kernel texts."""
    return {"real": real(problem), **reals.spelled(problem)}


def beside(point: Point, name: str, defines: Mapping[str, Value], **values: Any) -> Source:
    """A shared text for a launch before or after the product. It has the product's build option for an early start, so that consecutive
    launches can overlap.
    """
    early = EARLY_START in point.OPTIONS
    return replace(load(_FOLDER, name, defines, EARLY=early, **values), options=point.OPTIONS if early else ())
