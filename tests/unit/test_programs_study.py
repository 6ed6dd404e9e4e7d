"""The study of whole programs: back ends of one piece of hardware and processors are compared with the right rows."""

from __future__ import annotations

import pytest

from portatile.errors import UnknownNameError
from portatile.studies import programs
from portatile.studies.programs import ProgramRow
from portatile.workloads import get
from support.devices import DEVICES


def row(device: str, backend: str, kind: str, total: float, best: float, relaxed: bool = False) -> ProgramRow:
    return ProgramRow(
        device, device, backend, "pci:1" if kind == "gpu" else "cpu", kind, "CP", "atoms=1", relaxed, 0.1, 0.2, 0.1, best, total, best
    )


ROWS = [
    row("cuda:0", "cuda", "gpu", 1.0, 0.01),
    row("opencl:0:0", "opencl", "gpu", 3.0, 0.02),
    row("opencl:1:0", "opencl", "cpu", 2.0, 0.4),
    row("cuda:0", "cuda", "gpu", 0.5, 0.005, relaxed=True),
]


def test_totals_are_compared_on_the_same_hardware_and_kernels_with_the_processor() -> None:
    cuda, opencl, cpu, relaxed = programs.finish(ROWS)
    assert (cuda.over_back_end, opencl.over_back_end, cpu.over_back_end) == (1.0, 3.0, None)
    assert (cuda.over_cpu, opencl.over_cpu, cpu.over_cpu) == (40.0, 20.0, None)
    assert relaxed.over_cpu is None  # the processor has no row with the option
    assert [figure.title for figure in programs.figures(programs.finish(ROWS))] == [
        "Total time with compilation",
        "Kernels side by side",
        "Over the processor",
    ]
    assert any("2.00 times as fast relaxed" in note for note in programs.notes(ROWS))


def test_programs_are_chosen_by_name() -> None:
    assert programs.chosen(()) == list(programs.PROGRAMS)
    assert programs.chosen(("mri-q,CP", "matrixmul")) == ["matrixMul", "CP", "MRI-Q"]
    with pytest.raises(UnknownNameError):
        programs.chosen(("MRI",))


@pytest.mark.parametrize("name", programs.PROGRAMS)
def test_the_documents_forms_are_legal_on_a_gpu(name: str) -> None:
    one = programs.program(name, 64)
    workload = get(one.problem.workload)
    if one.config is not None:
        space = workload.space(one.problem, DEVICES["gpu"])
        assert space.violated(space.complete(one.config)) is None
