"""Studies of products: images and unrolling, and the copies before a product; every point is a row, every copy is checked."""

from __future__ import annotations

import json

import pytest

from portatile import workloads
from portatile.device.base import Device
from portatile.errors import DeviceError
from portatile.measure import runs
from portatile.records import Plan
from portatile.studies import images, packing
from portatile.studies.framework.conduct import conduct
from portatile.studies.framework.study import StudyRequest

pytestmark = [pytest.mark.usefixtures("own_directories"), pytest.mark.unoptimised]


def test_every_point_of_the_images_study(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    every = list(images.points(workloads.get("gemm").problem({"m": 24, "n": 24, "k": 24})))
    assert len(every) == 12
    assert [point[2] for point in every] == [True] * 6 + [False] * 6, "what tells most comes first"
    some = [every[0], every[6], every[1]]
    monkeypatch.setattr(images, "points", lambda problem: iter(some))
    rows = conduct(images.STUDY, StudyRequest((device,), images.ImagesOptions(24, ("float32",)))).rows
    assert [(row.blocking, row.reads, row.unrolled) for row in rows] == [point[:3] for point in some]
    for row in rows:
        assert row.status == "ok", row.status
        assert row.error is not None
        assert row.error <= 1
        assert row.gflops == pytest.approx(2 * 24**3 / (row.seconds or 0) / 1e9)
        assert json.loads(row.config)["UNROLL"] == (json.loads(row.config)["KB"] if row.unrolled else 1)
        assert row.language == device.info.can.language
    (figure,) = images.figures(rows)
    assert figure.groups == ("magma, memory", "magma, images")
    assert figure.series == (f"{device.info.id} unrolled", f"{device.info.id} not unrolled")


def test_the_best_of_back_ends_that_share_a_device_are_told() -> None:
    row = images.ImagesRow(
        "a:0", "Device", "1", "OpenCL C", "pci:1", "magma", "images", True, "float32", 64, 1e-3, 10.0, None, 0.1, "", "ok", 3, "{}"
    )
    other = images.replace(row, device="b:0", language="CUDA C++", gflops=20.0)
    (said,) = images.notes([row, images.replace(row, gflops=5.0, reads="memory"), other])
    assert "10 through a:0 (OpenCL C; magma, images, unrolled)" in said
    assert "20 through b:0 (CUDA C++" in said
    assert images.notes([row]) == []


def test_every_copy_of_the_packing_study(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "_LENGTH", runs.MeasurementLength(samples=1, seconds=0.0, burst=0.0))
    rows = conduct(packing.STUDY, StudyRequest((device,), packing.PackingOptions((48,)))).rows
    assert [(row.target, row.by, row.transposes) for row in rows] == list(packing._KINDS)
    for row in rows:
        assert row.status == "ok", row.status
        assert row.rate == pytest.approx(2 * 48 * 48 * 4 / (row.seconds or 0) / 1e9)
    (figure,) = packing.figures(rows)
    assert len(figure.series) == len(rows)


def test_what_cannot_be_copied_is_a_row(device: Device) -> None:
    problem = workloads.get("gemm").problem({"m": 45, "n": 45, "k": 45})
    with runs.prepared(device, problem) as ready:
        row = packing._measured(ready, packing._row(device, problem, "image", "driver", False))
    assert "4 divides" in row.status
    assert row.rate is None
    with pytest.raises(DeviceError, match="does not copy operand a"):
        packing.packing(Plan((), ()), "a")
