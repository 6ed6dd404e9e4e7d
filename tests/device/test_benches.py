"""The benches run from end to end on small problems and write what they promise; no time is asserted."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from portatile import device
from support.seeds import new_seed
from support.unoptimised import environment

pytestmark = [pytest.mark.lengthy, pytest.mark.drawn(1 / 8, beside_a_gpu=1)]

BENCH = Path(__file__).parents[2] / "bench"


def run(script: str, folder: Path, *args: str, selector: str = "") -> tuple[dict[str, Any], str]:
    """The document that a bench writes, and what it prints; on the first OpenCL device unless another is named."""
    selector = selector or device.get("opencl").info.id
    command = [sys.executable, str(BENCH / script), "--device", selector, "--out", str(folder / "out"), *args]
    completed = subprocess.run(command, env=environment(folder), capture_output=True, text=True, timeout=280)
    assert completed.returncode == 0, completed.stderr
    (written,) = (folder / "out").glob("*.json")
    return json.loads(written.read_text()), completed.stdout


def test_gemm_measures_every_participant(tmp_path: Path) -> None:
    document, shown = run("gemm.py", tmp_path, "--sizes", "40x24x56", "--trans", "NN,TN", "--rounds", "2", "--sustained", "0")
    assert {"time", "commit", "python", "cpu", "versions", "devices", "options"} <= set(document)
    assert [problem["trans"] for problem in document["problems"]] == ["NN", "TN"]
    for problem in document["problems"]:
        names = {row["name"] for row in problem["rows"]}
        assert {"tuned", "default"} <= names
        assert ({"course local", "course global"} <= names) == (problem["trans"] == "NN")
        for row in problem["rows"]:
            assert row["error"] <= 1
            assert len(row["burst"]) == 2
            assert min(row["burst"]) > 0
            assert row["version"]
            assert row["name"] in shown
            if row["place"].startswith("portatile") and document["ceilings"][row["place"].split()[1]]:  # may be refused on a busy machine
                limit = document["ceilings"][row["place"].split()[1]][row["ceiling"]]
                assert row["share"] == pytest.approx(1e9 * row["gflops"] / limit)
    assert "ceilings of" in shown


def test_gemm_measures_no_ceilings_where_none_are_wanted(tmp_path: Path) -> None:
    args = ("--sizes", "24", "--rounds", "1", "--sustained", "0", "--rows", "tuned", "--no-ceilings")
    document, _ = run("gemm.py", tmp_path, *args)
    assert "ceilings" not in document
    assert all("share" not in row for problem in document["problems"] for row in problem["rows"])


def test_level3_compares_routines_with_the_blas(tmp_path: Path) -> None:
    """Two of them, others every time."""
    host = next((opened.info.id for opened in device.devices() if opened.info.kind == "cpu"), None)
    if host is None:
        pytest.skip("no OpenCL device is a processor")
    routines = random.Random(new_seed("routines")).sample(["trsm", "trmm", "symm", "syrk", "syr2k"], 2)
    args = ("--sizes", "24x24", "--rounds", "2", "--burst", "0.001", "--dtype", "float64", "--routines", ",".join(routines))
    document, shown = run("level3.py", tmp_path, *args, selector=host)
    assert {row["routine"] for row in document["rows"]} == set(routines)
    for row in document["rows"]:
        assert min(*row["samples"]["portatile"], *row["samples"]["BLAS"], row["ratio"]) > 0
        assert max(row["errors"].values()) < 1e-13
    assert all(f"{row['routine']} {row['case']} 24 x 24 float64" in shown for row in document["rows"])


def test_level3_draws_random_problems_of_numpy_arrays(tmp_path: Path) -> None:
    host = next((opened.info.id for opened in device.devices() if opened.info.kind == "cpu"), None)
    if host is None:
        pytest.skip("no OpenCL device is a processor")
    args = ("--random", "6", "--seed", "4", "--sizes", "4,24", "--rounds", "2", "--burst", "0.001", "--dtype", "float64,complex64")
    document, shown = run("level3.py", tmp_path, *args, selector=host)
    assert len(document["rows"]) == 6
    assert {row["dtype"] for row in document["rows"]} == {"float64", "complex64"}
    assert all(4 <= max(row["m"], row["n"]) <= 24 for row in document["rows"])
    assert "trsm, BLAS 0 to 20 us" in shown


def test_residues_have_the_times_of_their_steps_and_counts_of_errors(tmp_path: Path) -> None:
    args = ("--sizes", "40", "--dtypes", "complex64", "--data", "normal", "--burst", "1", "--sustained", "0", "--steps")
    document, shown = run("residues.py", tmp_path, *args)
    rows = {row["name"]: row for row in document["rows"]}
    assert {"residues", "native", "3m"} <= rows.keys()
    assert all(sum(row["histogram"].values()) == 40 * 40 and row["burst"] > 0 for row in rows.values())
    steps = [name for name, seconds in rows["residues"]["steps"] if seconds > 0]
    assert steps.count("residues_cut") == 2
    assert steps[-2:] == ["residues_join", "residues_mend"]
    assert "residues_join" in shown


def test_cold_warm_measures_every_phase_in_every_state(tmp_path: Path) -> None:
    document, shown = run("cold_warm.py", tmp_path, "--gemm", "24x16x40", "--trsm", "", "--repeat", "1")
    (program,) = document["programs"]
    states = {(row["own"], row["driver"]): row for row in program["rows"]}
    assert set(states) == {(own, driver) for own in ("cold", "warm") for driver in ("cold", "warm")}
    for (own, _), row in states.items():
        assert (row["compiled"] == 0) == (own == "warm")
        assert {"import", "platform", "context", "build", "kernel", "transfer", "execution", "again", "read-back", "keep"} == set(
            row["median"]
        )
        (sample,) = row["samples"]
        assert row["first_result"] == pytest.approx(sum(sample.values()) - sample["again"] - sample["keep"])
    assert "cache warm, driver warm" in shown


def test_workloads_measures_every_form_and_peer(tmp_path: Path) -> None:
    volumes = ("magicfilter3d", "apply_potential")
    names = f"stream,convolution,coulomb,mri,{','.join(volumes)}"
    few = "coulomb|mri|triad|convolution (analysis|periodic 243|256.*float32)"
    args = ("--scale", "4096", "--quick", "--seconds", "0", "--only", names, "--match", few)
    document, shown = run("workloads.py", tmp_path, *args)
    rows = document["rows"]
    assert not [row for row in rows if "error" in row and isinstance(row["error"], str)]
    forms = {(row["problem"].split()[0], row["form"]) for row in rows}
    on_gpu = device.get("opencl").info.kind == "gpu"
    for name in ("stream", "convolution", "coulomb", "mri", *volumes):
        assert (name, "as it comes") in forms
        assert name not in volumes or on_gpu or (name, "peer") in forms
    assert {("convolution", "16 x 16"), ("convolution", "peer"), ("magicfilter3d", "16 x 16, 3 passes")} <= forms
    kinds = {(row["problem"].split()[1], row["form"]) for row in rows if row["problem"].startswith("mri")}
    assert {("q", "peer"), ("fhd", "peer")} <= kinds or device.get("opencl").info.kind == "gpu"
    assert {("coulomb", "peer"), ("mri", "peer")} <= forms or device.get("opencl").info.kind == "gpu"
    for row in rows:
        assert min(row["samples"]) > 0
        assert row.get("error", 0) <= 1
        assert "driver" in row
        assert ("ceiling" in row) == ("share" in row)
        if "ceiling" in row:
            assert row["ceiling"] in document["ceilings"][row["device"]]
            assert row["share"] > 0
            assert f"{row['share']:.2f} {row['ceiling']}" in shown
    assert "tuned" not in {row["form"] for row in rows}
    assert all("copy" in known for known in document["ceilings"].values())  # arithmetic may be refused on a busy machine
    assert "Ceilings" in shown


def test_slabs_compares_the_whole_with_its_stages(tmp_path: Path) -> None:
    document, shown = run("slabs.py", tmp_path, "--small", "--rounds", "1")
    rows = {row["routine"]: row for row in document["rows"]}
    assert set(rows) == {"matmul", "coulomb", "convolution"}
    for row in rows.values():
        assert row["slabs"] >= 4
        assert row["driver"]
        assert row["whole"] > 0
        assert all(row["stages"][stage] > 0 for stage in ("upload", "kernel", "download", "collect"))
        assert row["sum"] == pytest.approx(sum(row["stages"].values()))
        assert len(row["samples"]["whole"]) == len(row["samples"]["kernel"]) == 1
        assert row["apart"] >= row["sum"]
    assert "apart / whole" in shown


@pytest.mark.drawn(1 / 8)
def test_warm_start_compares_searches(tmp_path: Path) -> None:
    document, shown = run("warm_start.py", tmp_path, "--workload", "matmul", "--shapes", "24x16x40,32x16x40", "--budget", "3")
    first, second = document["shapes"]
    assert (first["warm"]["warm_starts"], second["cold"]["warm_starts"]) == (0, 0)
    assert second["warm"]["warm_starts"] > 0
    assert any(second[name]["near_at"] for name in ("cold", "warm"))
    assert "24x16x40" in shown


def test_experiments_run_their_commands(tmp_path: Path) -> None:
    document, shown = run("experiments.py", tmp_path, "--only", "scale", "--gallery", str(tmp_path / "gallery.html"))
    assert [row["code"] for row in document["rows"]] == [0], shown
    for row in document["rows"]:
        assert row["rows"] > 0
        assert row["figures"] > 0
        assert row["columns"]
        assert row["timed"]
        assert row["files"] == ["json", "html", "csv", "svg"]
    assert (tmp_path / "gallery.html").read_text().count("<section") == 1


def test_portability_writes_matrix_and_map(tmp_path: Path) -> None:
    args = ("--workload", "matmul", "--sizes", "24x16x40", "--map", "ALGORITHM,TRANSPOSE", "--tries", "1")
    document, shown = run("portability.py", tmp_path, *args)
    (row,) = document["rows"]
    assert (row["winner_of"], row["loss"], row["status"]) == (row["device"], 1.0, "ok")
    assert {row["down_value"] for row in document["maps"]} == {"sequential", "global", "local"}
    assert any(row["relative"] == 1.0 for row in document["maps"])
    assert "own Gflop/s" in shown


def test_held_out_compares_what_is_chosen(tmp_path: Path) -> None:
    document, shown = run("held_out.py", tmp_path, "--workload", "matmul", "--sizes", "24x16x40", "--tune", "4")
    rows = {row["rule"]: row for row in document["rows"]}
    assert set(rows) == {"tuned", "problem held out", "device held out", "hardware held out", "default"}
    assert (rows["tuned"]["reason"], rows["tuned"]["loss"]) == ("tuned", 1.0)
    assert rows["device held out"]["reason"] == rows["default"]["reason"] == "default"
    assert all(row["loss"] > 0 for row in rows.values() if row["status"] == "ok")
    assert "geometric mean" in shown


def test_held_out_does_not_call_a_default_tuned(tmp_path: Path) -> None:
    document, shown = run("held_out.py", tmp_path, "--workload", "matmul", "--sizes", "24x16x40")
    assert {row["status"] for row in document["rows"]} == {"nothing tuned"}
    assert all(row["loss"] is None and row["seconds"] > 0 for row in document["rows"])
    lines = {line.split("  ")[0]: line.split("  ")[1:] for line in shown.splitlines()}
    assert not "".join(lines["geometric mean"]).strip(), "no row has a loss that it could be the mean of"
    assert shown.count("nothing tuned") == 4


def test_copies_measures_panels_and_images(tmp_path: Path) -> None:
    document, shown = run("copies.py", tmp_path, "--sizes", "40,41")
    info = device.get("opencl").info
    rows = document["rows"]
    errors = [row for row in rows if "error" in row]
    assert {(row["what"], row["n"]) for row in errors} == {("driver to image", 41)} or not info.images
    assert {row["dtype"] for row in rows} == ({"float32", "float64"} if info.fp64 else {"float32"})
    expected = {"copy kernel", "driver", "panels", "panels transposed"} | (
        {"driver to image", "image", "image transposed"} if info.images else set()
    )
    assert {row["what"] for row in rows if "rate" in row} == expected
    for row in rows:
        if "rate" in row:
            assert min(*row["samples"], row["rate"], row["share"]) > 0
            assert (row["what"] == "copy kernel") <= (row["share"] == 1)
    assert "panels transposed" in shown


def test_presets_are_timed_beside_the_default(tmp_path: Path) -> None:
    document, shown = run("presets.py", tmp_path, "--size", "40", "--samples", "2", "--dtype", "float32")
    info = device.get("opencl").info
    rows = {row["preset"]: row for row in document["rows"]}
    assert set(rows) == {"default", *document["presets"]}
    for name, row in rows.items():
        if info.images or not row["config"]["TXC"]:
            assert row["of_bound"] <= 1
            assert len(row["samples"]) == 2
            assert min(*row["samples"], row["gflops"]) > 0
            assert name in shown


def test_ways_to_an_operand_are_timed_beside_each_other(tmp_path: Path) -> None:
    ways = ("direct", "image", "view local", "panels", "view | local")
    few = ("--size", "24", "--samples", "1", "--dtype", "float32", "--only", ",".join(ways))
    document, shown = run("presets.py", tmp_path, *few, "--staging", "--trans", "TN")
    info = device.get("opencl").info
    rows = {row["preset"]: row for row in document["rows"]}
    assert set(rows) == {"default", *ways}
    for name, row in rows.items():
        if info.image_buffer_max or not row["config"]["TXC"]:
            assert row["of_bound"] <= 1
            assert name in shown
            if name != "default":
                assert (row["workspace"] > 0) == ("image" in name or "panels" in name)


def test_several_devices_measures_every_place_of_the_data(tmp_path: Path) -> None:
    args = (
        "--size",
        "40",
        "--grid",
        "8",
        "--repeat",
        "1",
        "--bytes",
        "1000",
        "--tune",
        "0",
        "--only",
        "matmul float32",
        "--only",
        "copies",
    )
    document, shown = run("several_devices.py", tmp_path, *args)
    ((case, seconds),) = ((row["case"], row["seconds"]) for row in document["cases"])
    assert case == "matmul float32"
    assert min(taken for way in seconds.values() for taken in way) > 0
    assert "of the sum" in shown.splitlines()[-1 - len(seconds)], "the table comes last"


def test_host_memory_measures_cores_and_links(tmp_path: Path) -> None:
    """Without a device that has memory of its own, only what cores copy."""
    document, shown = run("host_memory.py", tmp_path, "--bytes", "100000", "--repeat", "2")
    assert {row["memory"] for row in document["rows"]} == {"cores"}
    assert all(len(row["bytes_per_second"]) == 2 and min(row["bytes_per_second"]) > 0 for row in document["rows"])
    assert shown.splitlines()[-1].startswith("cores")


def test_dialect_judges_programs_by_numpy_and_constructs(tmp_path: Path) -> None:
    document, shown = run("dialect.py", tmp_path, "--only", "^(nbody|julia)$", "--jobs", "1")
    (column,) = document["devices"]
    assert {name: answers[column]["status"] for name, answers in document["programs"].items()} == {"julia": "ok", "nbody": "ok"}
    assert document["judged_by"] == {"julia": column, "nbody": "NumPy"}
    assert "programs" in shown
