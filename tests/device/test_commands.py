"""The commands end to end on the default device: tune, show and cache, with their own store and cache."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from portatile import device, workloads
from portatile.cli import main
from portatile.device import datasheet
from portatile.device.cuda import compiler as cuda_compiler
from portatile.records import to_json
from portatile.tuning.search import spending

pytestmark = pytest.mark.usefixtures("own_directories")

SIZES = ["-m", "33", "-n", "21", "-k", "17"]
needs_nvrtc = pytest.mark.skipif(cuda_compiler.available() is not None, reason=f"NVRTC: {cuda_compiler.available()}")


def tune(capsys: pytest.CaptureFixture[str], *more: str) -> tuple[str, str]:
    """Output and messages of a short search."""
    assert main(["tune", "matmul", *SIZES, "--budget", "3", "--strategy", "random", *more]) == 0
    return capsys.readouterr()


def test_tune_prints_winner_default_and_counts(capsys: pytest.CaptureFixture[str]) -> None:
    out, err = tune(capsys)
    assert "matmul m=33 n=21 k=17 float32" in out
    assert {line.split()[0] for line in out.splitlines() if line.strip()} >= {"winner", "default", "best", "1"}
    assert "3 configurations" in out
    assert "tried" in err


@pytest.mark.drawn(1 / 2)
def test_tune_says_who_raced_and_what_was_checked(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, all_near: None
) -> None:
    monkeypatch.setattr(spending.Spending, "race_seconds", lambda _: 60.0)  # until they are told apart, however disturbed the machine is
    out, err = tune(capsys)
    assert "finalists compared: [ ] holds the median with 95 % confidence" in out
    assert "3 finalists race" in err
    assert main(["results"]) == 0
    text = capsys.readouterr().out
    assert "[" in text.partition("median within")[2]
    assert "shapes, " in text
    document = json.loads(tune(capsys, "--json")[0])
    assert [one["place"] for one in document["finalists"]] == list(range(1, len(document["finalists"]) + 1))
    assert document["finalists"][0]["config"] == document["config"]
    assert all(one["interval"][0] <= one["seconds_per_run"] <= one["interval"][1] for one in document["finalists"])
    assert document["certificate"]["checks"][-1]["sizes"] == {"m": 33, "n": 21, "k": 17}
    assert all(check["error"] <= 1 for check in document["certificate"]["checks"])
    assert main(["results", "--json", "--best"]) == 0
    (best,) = json.loads(capsys.readouterr().out)
    assert best["config"] == document["config"]
    assert best["certificate"] == document["certificate"]


def test_tune_cold_and_without_the_model(capsys: pytest.CaptureFixture[str]) -> None:
    document = json.loads(tune(capsys, "--json", "--cold", "--no-model", "--budget", "1")[0])
    assert all(trial["cold"] for trial in document["trials"])
    assert not {"on paper", "once compiled"} & set(document["saved"])


@pytest.mark.drawn(1 / 2)
def test_tune_again_answers_from_the_store(capsys: pytest.CaptureFixture[str]) -> None:
    tune(capsys)
    out, err = tune(capsys)
    assert "3 configurations" in out
    assert "3 from the store" in err


@pytest.mark.drawn(1 / 2)
def test_tune_json_is_one_document_that_warm_reads(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, _ = tune(capsys, "--json")
    document = json.loads(out)
    assert document["problem"]["sizes"] == {"m": 33, "n": 21, "k": 17}
    assert len(document["trials"]) == 3
    assert document["config"] in [trial["config"] for trial in document["trials"] if trial["status"] == "ok"]
    assert document["seconds_per_run"] > 0
    assert document["gflops"] == pytest.approx(2 * 33 * 21 * 17 / document["seconds_per_run"] / 1e9)
    (tmp_path / "winner.json").write_text(out)
    monkeypatch.setenv("PORTATILE_CACHE_DIR", str(tmp_path / "another"))
    assert main(["cache", "warm", str(tmp_path / "winner.json")]) == 0
    assert "compiled 1 program, 0 from the cache" in capsys.readouterr().out
    assert main(["cache", "warm", str(tmp_path / "winner.json")]) == 0
    assert "compiled 0 programs, 1 from the cache" in capsys.readouterr().out


@needs_nvrtc
def test_the_cache_is_warmed_for_a_chip_that_is_elsewhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    problem = workloads.get("gemm").problem({"m": 64, "n": 64, "k": 64})
    config = workloads.get("gemm").default(problem, datasheet("sm_80"))
    listed = tmp_path / "listed.json"
    listed.write_bytes(to_json([{"problem": problem, "config": config}]))
    for said in ("compiled 1 program, 0 from the cache", "compiled 0 programs, 1 from the cache"):
        assert main(["cache", "warm", str(listed), "--arch", "sm_80"]) == 0
        assert said in capsys.readouterr().out
    for wrong in ([str(listed), "--arch", "sm_80", "--device", "opencl:0:0"], ["--arch", "sm_80"], [str(listed), "--arch", "sm_1"]):
        assert main(["cache", "warm", *wrong]) == 2
        assert re.search("sm_90|--arch", capsys.readouterr().err)


@pytest.mark.drawn(1 / 2)
def test_cache_is_warmed_from_the_store_counted_and_cleared(capsys: pytest.CaptureFixture[str]) -> None:
    tune(capsys)
    assert main(["cache", "clear"]) == 0
    assert main(["cache", "warm"]) == 0
    assert "1 configuration for" in capsys.readouterr().out
    assert main(["cache", "info"]) == 0
    assert "entries  1" in capsys.readouterr().out
    assert main(["cache", "clear"]) == 0
    assert "removed 1 entry" in capsys.readouterr().out


def test_cache_info_for_programs(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["cache", "info", "--json"]) == 0
    output = json.loads(capsys.readouterr().out)
    assert output.keys() == {"folder", "entries", "bytes", "limit"}
    assert output["entries"] == output["bytes"] == 0


@pytest.mark.parametrize("text", ["[{}]", '{"problem": 3}', "nonsense"])
def test_warm_says_what_is_wrong_with_a_file(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "list.json").write_text(text)
    assert main(["cache", "warm", str(tmp_path / "list.json")]) == 2
    assert "list.json" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--strategy", "locla"], "unknown strategy 'locla'"),
        (["--device", "no such device"], "no device matches"),
        (["--budget", "soon"], "budget"),
        (["--dtype", "float23"], "float32"),
        (["--objective", "speed"], "unknown objective 'speed'"),
        (["--objective", "energy", "--cold"], "leave out --cold"),
    ],
)
def test_tune_mistakes_end_with_2(args: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tune", "matmul", *SIZES, *args]) == 2
    said = capsys.readouterr().err
    assert message in said
    assert "opening the device" not in said, "it is told before anything takes time"


@pytest.mark.parametrize("name", workloads.names())
@pytest.mark.parametrize("stage", ["template", "preprocessed", "lowered"])
def test_show_prints_the_kernels_of_every_workload(name: str, stage: str, capsys: pytest.CaptureFixture[str]) -> None:
    sizes = [word for size in workloads.get(name).sizes for word in (f"-{size}" if len(size) == 1 else f"--{size.replace('_', '-')}", "64")]
    assert main(["show", name, *sizes, "--stage", stage, "--device", device.get("opencl").info.id]) == 0
    out, err = capsys.readouterr()
    assert "__kernel" in out or "kernel void" in out
    assert name in err
    assert ("#if" in out) <= (stage != "preprocessed")


def test_show_takes_changes(capsys: pytest.CaptureFixture[str]) -> None:
    def shown(*more: str) -> str:
        assert main(["show", "matmul", *SIZES, "--stage", "preprocessed", "--device", "opencl", *more]) == 0
        return capsys.readouterr().out

    changes = ["ALGORITHM=global", "BLOCK=8", "DEPTH=0", "WPT=1", "VECTOR=1", "TRANSPOSE=false", "PADDING=0"]
    assert shown(*(word for change in changes for word in ("--config", change))) != shown()


@needs_nvrtc
def test_show_counts_local_memory_that_is_an_argument(capsys: pytest.CaptureFixture[str]) -> None:
    sizes = [word for flag in ("-m", "-n", "-k") for word in (flag, "4096")]
    assert main(["show", "gemm", *sizes, "--stage", "resources", "--arch", "sm_90"]) == 0
    head, *rows = capsys.readouterr().out.splitlines()
    place = head.split("  ")
    column = [name for name in map(str.strip, place) if name].index("local bytes")
    (product,) = (row.split() for row in rows if row.startswith("gemm "))
    assert int(product[column]) >= 16384  # tiles of A and B in several stages


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--config", "BLOCKS=8"], "Did you mean 'BLOCK'?"),
        (["--config", "BLOCK=7"], "is not one of"),
        (["--config", "BLOCK"], "NAME=VALUE"),
        (["--arch", "sm_9"], "architecture"),
        (["--arch", "sm_90", "--backend", "opencl"], "--arch"),
    ],
)
def test_show_mistakes_end_with_2(args: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "matmul", *SIZES, *args]) == 2
    assert message in capsys.readouterr().err


def test_show_takes_presets(capsys: pytest.CaptureFixture[str]) -> None:
    """A preset is of the problem's element type, --config changes it, and a wrong name is answered with those that there are."""
    sizes = ["gemm", "-m", "32", "-n", "32", "-k", "32", "--device", "opencl"]
    for dtype, tile in (("float32", "VL=4 TC=8 TR=8"), ("float64", "VL=2 TC=4 TR=4")):
        assert main(["show", *sizes, "--dtype", dtype, "--preset", "nakasato-plain", "--config", "KB=6", "--config", "UNROLL=6"]) == 0
        out, err = capsys.readouterr()
        assert f"{tile} TBC=8 TBR=8 TCR=1 TRR=1 KB=6 TXC=False SM=False UNROLL=6" in err
        assert "__kernel" in out
    assert main(["show", *sizes, "--preset", "magna"]) == 2
    assert "'magma', 'magma-plain', 'nakasato'" in capsys.readouterr().err
    assert main(["show", "stream", "-n", "9", "--preset", "magma"]) == 2, "stream has none"


@pytest.mark.parametrize("name", workloads.names())
def test_show_explains_every_parameter(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    workload = workloads.get(name)
    sizes = [word for size in workload.sizes for word in (f"-{size}" if len(size) == 1 else f"--{size.replace('_', '-')}", "64")]
    assert main(["show", name, *sizes, "--stage", "parameters", "--device", "opencl"]) == 0
    out = capsys.readouterr().out
    problem = workload.problem(dict.fromkeys(workload.sizes, 64), workload.dtypes[0])
    config = workload.default(problem, device.get("opencl").info)
    for parameter in config:
        assert re.search(rf"^{parameter} +\S", out, re.MULTILINE)
        assert parameter in workload.meanings or re.search(rf"\b{parameter}\b", out.partition("\n\n")[2]), parameter
    explained = workload.explained(config)
    assert all(" ".join(explained[name].split()) in " ".join(out.split()) for name in config if name in explained)


@needs_nvrtc
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90"])
def test_show_compiles_for_a_gpu_that_is_not_here(architecture: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "matmul", *SIZES, "--stage", "ptx", "--arch", architecture]) == 0
    assert f".target {architecture}" in capsys.readouterr().out
    assert main(["show", "matmul", *SIZES, "--stage", "instructions", "--arch", architecture]) == 0
    families = {line.split()[1]: line for line in capsys.readouterr().out.splitlines()[1:]}
    assert int(families["float32"].split()[-1]) > 0
    assert "fma.f32" in families["float32"]
    assert "ld.global" in families["load"]
    assert main(["show", "matmul", *SIZES, "--stage", "resources", "--arch", architecture]) == 0
    out = capsys.readouterr().out
    if "?" in out:
        pytest.skip("this NVRTC does not say what a kernel takes")
    kernels = [line.split() for line in out.splitlines() if line and line.split()[-1].isdigit()]
    assert kernels
    assert all(int(registers) > 0 for _, registers, *_ in kernels)


def test_a_file_is_compiled_by_the_driver_here_without_nvrtc(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing() -> None:
        raise ImportError("No module named 'cuda'")

    monkeypatch.setattr(cuda_compiler, "nvrtc", missing)
    monkeypatch.setenv("PORTATILE_DEVICE", "opencl")
    (tmp_path / "one.cl").write_text("kernel void one(global int *o) { o[get_global_id(0)] = 1; }\n")
    assert main(["compile", str(tmp_path / "one.cl")]) == 0
    output = capsys.readouterr()
    assert "int* o" in output.out
    assert "cuda" in output.err
    assert "compiled by the driver of" in output.err
    assert main(["compile", str(tmp_path / "one.cl"), "--arch", "sm_90"]) == 2
