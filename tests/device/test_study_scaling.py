"""The scaling study: kernels over sizes on every device, one work-item on processors only, back ends of one piece of hardware compared."""

from __future__ import annotations

from dataclasses import replace

import pytest

from portatile.device.base import Device
from portatile.studies import scaling
from portatile.studies.framework.conduct import conduct
from portatile.studies.framework.study import StudyRequest

pytestmark = [pytest.mark.usefixtures("own_directories"), pytest.mark.unoptimised]


def test_every_kernel_over_the_size(device: Device) -> None:
    options = scaling.ScalingOptions((8, 24), 4, sequential=8, repeat=1)
    rows = conduct(scaling.STUDY, StudyRequest((device,), options)).rows
    first = ["sequential", "global", "local"] if device.info.kind == "cpu" else ["global", "local"]
    assert [(row.algorithm, row.size) for row in rows] == [*((name, 8) for name in first), ("global", 24), ("local", 24)]
    for row in rows:
        assert (row.status, row.samples, row.language) == ("ok", 2, device.info.can.language), row.status
        assert row.window == pytest.approx(row.allocate + row.kernel + row.read_back)
        assert row.gflops == pytest.approx(2 * row.size**3 / row.kernel / 1e9)
        assert row.ratio is None
    titles = [figure.title for figure in scaling.figures(rows)]
    assert titles == [f"{what} over the size, {how}" for what in ("Kernel time", "Time with buffers") for how in ("logarithmic", "linear")]
    (said,) = scaling.notes(rows)
    assert f"{device.info.id} at 24: local memory " in said
    assert ("saves" in said) != ("times as long as global" in said)


def test_back_ends_of_the_same_hardware() -> None:
    row = scaling.ScalingRow(
        "a:0", "Device", "1", "gpu", "OpenCL C", "pci:1", "local", 64, "float32", 0.0, 3e-3, 0.0, 3e-3, 1.0, None, "ok", 1, ""
    )
    other, elsewhere = replace(row, device="b:0", language="CUDA C++", kernel=2e-3), replace(row, device="c:0", physical_id="cpu:0")
    failed = replace(row, device="b:0", algorithm="global", kernel=None)
    rows = scaling.finish([row, other, elsewhere, failed])
    assert {(row.device, row.algorithm): row.ratio for row in rows} == {
        ("a:0", "local"): 1.5,
        ("b:0", "local"): 1.0,
        ("c:0", "local"): None,
        ("b:0", "global"): None,
    }
    chart = scaling.figures(rows)[-1]
    assert chart.title == "Back ends of the same hardware"
    assert [curve.name for curve in chart.series] == ["a:0 local", "b:0 local"]


def test_the_answer_names_the_fastest_and_compares_it_with_one_work_item() -> None:
    row = scaling.ScalingRow(
        "a:0", "Device", "1", "cpu", "OpenCL C", "", "local", 64, "float32", 0.0, 3e-3, 0.0, 3e-3, 1.0, None, "ok", 1, ""
    )
    one = replace(row, algorithm="sequential", kernel=6e-3)
    assert scaling.answer([row, one]) == "Fastest at 64: local memory on a:0, 3 ms. At 64 a:0 is 2 times as fast as one work-item on a:0"
    assert scaling.answer([row, replace(one, kernel=2e-3)]) == "Fastest at 64: one work-item on a:0, 2 ms"
