"""`portatile bench` end to end on the default device: rates that are kept, products that are right, mistakes that are told."""

from __future__ import annotations

import csv
import io
import json
import os
from pathlib import Path

import numpy as np
import pytest

from portatile import ceilings, device, program, workloads
from portatile.ceilings import Measured
from portatile.cli import main
from portatile.device import datasheet
from portatile.device.cuda import compiler as cuda_compiler
from portatile.measure import peaks
from portatile.measure.phases import PHASES
from portatile.workloads.gemm import rungs
from support.compiling import Interpreted

pytestmark = pytest.mark.unoptimised

STREAM = ["bench", "bandwidth", "--size", "1048576"]


@pytest.fixture(autouse=True)
def own_directories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PORTATILE_DATA_DIR", str(tmp_path / "data"))


def test_bandwidth_prints_and_keeps(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peaks, "contenders", lambda asked, info: [])  # which take time to compile
    monkeypatch.setattr(ceilings, "stream_bytes", lambda info: 1 << 20)
    monkeypatch.setattr(peaks, "memory_limit", lambda *args: 0.0)  # a cache holds these arrays
    assert main([*STREAM, "--mode", "range", "--start", "4096", "--end", "12288", "--increment", "4096"]) == 0
    out = capsys.readouterr().out
    assert {"host", "device", "copy", "mul", "add", "triad", "dot"} <= {line.split()[0] for line in out.splitlines() if line.strip()}
    assert "12288" in out
    loaded = ceilings.load(device.get().info)
    assert loaded is not None
    assert len(loaded.transfers) == 9
    assert loaded.copy
    assert loaded.triad
    assert loaded.transfer("htod", "pinned")
    assert loaded.transfer("htod", "pageable") is None


def test_a_small_size_leaves_the_ceilings(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrays that a cache holds are measured and shown, and the memory's rate stays what it was."""
    monkeypatch.setattr(peaks, "contenders", lambda asked, info: [])
    info = device.get().info
    slow = Measured("triad", "B/s", 1.0, (1.0,), {"dtype": "float64", "operation": "triad", "n": 1 << 40})
    ceilings.add(info, [slow])
    once = ["--htod", "--mode", "range", "--start", "64", "--end", "64", "--increment", "64"]
    assert main(["bench", "bandwidth", "--size", "262144", *once]) == 0
    shown = capsys.readouterr()
    assert "copy" in shown.out
    assert "a cache may hold" in shown.err
    loaded = ceilings.load(info)
    assert loaded is not None
    assert loaded.bandwidth == 1e-9


def test_figures_that_cannot_be_kept_are_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("PORTATILE_DATA_DIR", str(tmp_path / "file" / "data"))
    assert (
        main(["bench", "bandwidth", "--htod", "--no-stream", "--mode", "range", "--start", "64", "--end", "64", "--increment", "64"]) == 0
    )
    shown = capsys.readouterr()
    assert "host to device" in shown.out
    assert "not kept" in shown.out
    assert "PORTATILE_DATA_DIR" in shown.err


def test_bandwidth_speaks_json_and_csv(capsys: pytest.CaptureFixture[str]) -> None:
    small = ["bench", "bandwidth", "--no-stream", "--mode", "range", "--start", "1000", "--end", "1000", "--increment", "1"]
    assert main([*small, "--htod", "--memory", "pageable", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["measured"]
    assert (row["name"], row["of"], row["bytes"], row["unit"]) == ("htod", "pageable", 1000, "B/s")
    assert row["rate"] == pytest.approx(1000 / row["seconds"])
    assert main([*small, "--dtoh", "--dtod", "--csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [row["name"] for row in rows] == ["dtoh", "dtod"]
    assert float(rows[1]["rate"]) == pytest.approx(2000 / float(rows[1]["seconds"]))


@pytest.mark.parametrize(
    "args",
    [["--mode", "range", "--start", "5"], ["--start", "5"], ["--mode", "range", "--start", "9", "--end", "5", "--increment", "1"]],
)
def test_bandwidth_mistakes_end_with_2(args: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*STREAM, *args]) == 2
    assert "range" in capsys.readouterr().err


def test_a_benchmark_that_is_not_there_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "bandwith"]) == 2
    assert "Did you mean 'bandwidth'?" in capsys.readouterr().err


@pytest.mark.parametrize(("algorithm", "block"), [("host", None), ("sequential", None), ("global", "8"), ("local", "4"), ("gemm", None)])
def test_every_algorithm_writes_the_product(algorithm: str, block: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "product.npz"
    sizes = ["-m", "21", "-n", "13", "-k", "17", *(["--block", block] if block else [])]
    assert main(["bench", "matmul", "--algorithm", algorithm, *sizes, "--dtype", "float64", "-o", str(path), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    with np.load(path) as found:
        assert np.allclose(found["c"], found["a"] @ found["b"], rtol=0, atol=1e-13)
        assert found["c"].shape == (21, 13)
    assert shown["gflops"] > 0
    if algorithm != "host":
        assert list(shown["split"]["seconds"]) == list(PHASES)
        assert shown["total"] == pytest.approx(sum(shown["split"]["seconds"].values()))


@pytest.mark.parametrize("suffix", [".txt", ".npy"])
def test_the_product_is_one_seeds(suffix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same product by two algorithms, each in a file of its own."""
    found = []
    for name in ("host", "local"):
        path = tmp_path / f"{name}{suffix}"
        assert main(["bench", "matmul", "--algorithm", name, "--block", "4", "--size", "19", "--repeat", "0", "-o", str(path)]) == 0
        found.append(np.load(path) if suffix == ".npy" else np.loadtxt(path))
    assert np.allclose(*found, rtol=0, atol=1e-6)
    assert "Gflop/s" in capsys.readouterr().out


@pytest.mark.parametrize("rung", [1, 5, 9])
def test_rungs_run(rung: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "matmul", "--rung", str(rung), "--size", "70", "--repeat", "0"]) == 0
    assert f"rung {rung}, 70 x 70 x 70" in capsys.readouterr().out


def test_presets_run(capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("magma", "nakasato-plain"):
        assert main(["bench", "matmul", "--preset", name, "--size", "70", "--dtype", "float64", "--repeat", "0"]) == 0
        assert f"preset {name}, 70 x 70 x 70" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--algorithm", "global", "--block", "3"], "BLOCK=3"),
        (["--algorithm", "host", "--size", "4000"], "minutes"),
        (["--size", "8", "-o", "c.csv"], ".npy"),
        (["--platform", "0", "--device", "pocl"], "number"),
        (["--platform", "77"], "no device"),
        (["--rung", "11"], "range"),
        (["--rung", "3", "--algorithm", "local"], "leave out one"),
        (["--rung", "3", "--preset", "magma"], "leave out one"),
        (["--preset", "magna"], "'magma', 'magma-plain'"),
        (["--algorithm", "host", "--size", "8", "--ldg"], "--ldg is for kernels"),
    ],
)
def test_matmul_mistakes_end_with_2(args: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "matmul", *args]) == 2
    assert message in capsys.readouterr().err


def test_cold_compiles_and_leaves_the_environment(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Twice with one cache: our own is not asked, and the process is as it was."""
    monkeypatch.delenv("POCL_KERNEL_CACHE", raising=False)
    seen = []
    compiled = type(device.get().target).compile

    def watched(self: object, *args: object) -> object:
        seen.append(os.environ.get("POCL_KERNEL_CACHE"))
        return compiled(self, *args)

    monkeypatch.setattr(type(device.get().target), "compile", watched)
    for _ in range(2):
        assert main(["bench", "matmul", "--algorithm", "global", "--block", "4", "--size", "8", "--repeat", "0", "--cold"]) == 0
    assert seen == ["0", "0"]
    assert "POCL_KERNEL_CACHE" not in os.environ
    assert "build" in capsys.readouterr().out


@pytest.mark.parametrize("args", [["--rung", "8"], ["--rung", "3", "--ldg"], ["--shuffle"], ["--plain"]])
def test_nvidias_switches_are_refused_elsewhere(args: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    if device.get().info.nvidia:
        pytest.skip("the default device is NVIDIA's")
    assert main(["bench", "matmul", *args, "--size", "32"]) == 2
    assert "NVIDIA" in capsys.readouterr().err


@pytest.mark.parametrize("rung", [1, 3, 4, 5, 6, 7, 8, 10])
def test_switches_run(rung: int, capsys: pytest.CaptureFixture[str]) -> None:
    if not device.get().info.nvidia:
        pytest.skip("the default device is not NVIDIA's")
    switches = ["--ldg", *(["--shuffle"] if rung > 1 else [])]
    assert main(["bench", "matmul", "--rung", str(rung), *switches, "--size", "170", "--repeat", "0"]) == 0
    assert f"rung {rung} with LDG" in capsys.readouterr().out


def test_plain_loads_and_carve_outs(capsys: pytest.CaptureFixture[str]) -> None:
    size = ["bench", "matmul", "--size", "32", "--repeat", "0"]
    assert main([*size, "--rung", "7", "--plain"]) == 2
    assert "study ladder" in capsys.readouterr().err
    info = device.get().info
    assert main([*size, "--carveout", "50"]) == (0 if info.can.carveout else 2)
    assert main([*size, "--plain"]) == (0 if info.nvidia else 2)


def test_the_cpu_flag_takes_a_cpu(capsys: pytest.CaptureFixture[str]) -> None:
    if not any(opened.info.kind == "cpu" for opened in device.devices()):
        pytest.skip("no CPU device")
    assert main(["bench", "matmul", "--cpu", "--size", "16", "--repeat", "0", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["split"]["device"]["kind"] == "cpu"


@pytest.mark.skipif(cuda_compiler.available() is not None, reason=f"no CUDA compiler: {cuda_compiler.available()}")
def test_registers_are_told_every_time() -> None:
    """NVRTC may know a text from before, and has to tell all the same."""
    gemm = workloads.get("gemm")
    launch = gemm.plan(gemm.problem({"m": 64, "n": 64, "k": 64}), rungs.rung(6, "float32"), datasheet("sm_90")).steps[0]
    for _ in range(2):
        assert program.build(launch.source, cuda_compiler.CudaTarget("sm_90"), None).resources[launch.kernel].registers > 0


@pytest.mark.skipif(cuda_compiler.available() is not None, reason=f"no CUDA compiler: {cuda_compiler.available()}")
@pytest.mark.parametrize("number", [8, 10])
def test_rungs_assemble_for_a_gpu(number: int) -> None:
    """Without spills; and rung 8's loads, all of them, take the read-only path."""
    info, gemm = datasheet("sm_90"), workloads.get("gemm")
    problem = gemm.problem({"m": 1024, "n": 1024, "k": 1024})
    launch = gemm.plan(problem, rungs.rung(number, "float32"), info).steps[0]
    if number == 8:
        text = program.build(launch.source, Interpreted("sm_90"), None).data
        loads = [line for line in text.splitlines() if b"ld.global" in line and b".f32" in line]
        assert sum(b".nc." in line for line in loads) >= 2, "A and B"
        assert gemm.space(problem, info).violated(rungs.rung(number, "float32")) is None
    resources = program.build(launch.source, cuda_compiler.CudaTarget("sm_90"), None).resources.get(launch.kernel)
    if resources is None:  # beside a GPU, and only there, NVRTC may answer from the driver's cache, which tells nothing of them
        assert any(opened.info.backend == "cuda" for opened in device.devices())
    else:
        assert resources.spill_loads == 0
