"""An exported folder computes without portatile: in a process where it cannot be imported, for every workload."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from portatile import processes, verify, workloads
from portatile.cli import main
from portatile.device.base import Device
from portatile.device.opencl import icd
from portatile.shipping import folder as folders
from portatile.store import ResultStore
from portatile.workloads import operands
from portatile.workloads.gemm import presets
from portatile.workloads.gemm.forms.generic.point import tile
from support.exported import SMALL, drawn, item, loaded
from support.seeds import new_seed

# Runs in a process of its own: reads arrays, computes each problem of the folder, writes what came out.
USER = """
import sys
class Nowhere:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "portatile":
            raise ImportError("portatile is not installed here")
folder, given, made, *sites = sys.argv[1:]
sys.path[:] = [folder, *sys.path, *sites]
sys.meta_path.insert(0, Nowhere())
try:
    import portatile
except ImportError:
    pass
else:
    sys.exit("portatile can be imported")
import loader
import numpy as np
arrays = np.load(given)
out = {}
for place, problem in enumerate(loader.problems()):
    of = {name.split("/")[1]: arrays[name] for name in arrays.files if name.split("/")[0] == str(place)}
    if not of:  # shipped for this device, not under test
        continue
    sizes = {**problem["sizes"], **problem["options"]}
    run = loader.load(problem["workload"], dtype=problem["dtype"], **sizes)
    scalars = {name: of.pop(name).item() for name in list(of) if name in problem["scalars"]}
    for _ in range(2):  # a second call finds what the first has left in memory
        result = run(**of, **scalars)
    written = [operand["name"] for operand in problem["operands"] if operand["role"] != "in"]
    result = result if isinstance(result, dict) else {written[0]: result}
    out.update({f"{place}/{name}": array for name, array in result.items()})
np.savez(made, **out)
assert not [name for name in sys.modules if name.split(".")[0] == "portatile"]
"""


@pytest.fixture(autouse=True)
def own_directories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PORTATILE_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("PORTATILE_CACHE_DIR", str(tmp_path / "cache"))


@pytest.fixture
def opencl(device: Device) -> Device:
    if device.info.backend != "opencl":
        pytest.skip("OpenCL's loader; CUDA's is tested on a fake driver")
    return device


@pytest.fixture
def loader_of(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The folder's own loader, as a module of its own."""
    return partial(loaded, monkeypatch)


def sites() -> list[str]:
    """The folders that hold what the loader imports, however this process found them: ``python -I`` knows the interpreter's own only."""
    found = [importlib.util.find_spec(name) for name in ("pyopencl", "numpy")]
    return list(dict.fromkeys(str(Path(spec.origin).parents[1]) for spec in found if spec is not None and spec.origin is not None))


def computed(folder: Path, items: list[folders.ShippedItem], rng: np.random.Generator, tmp_path: Path) -> None:
    """Run the folder in a process without portatile and check every result against the workload's reference."""
    given: dict[str, Any] = {}
    inputs = {}
    identity = ("workload", "sizes", "dtype", "options")
    written = [[problem[key] for key in identity] for problem in json.loads((folder / "kernels.json").read_text())["problems"]]
    placed = {written.index([getattr(one.problem, key) for key in identity]): one for one in items}
    for place, one in placed.items():
        workload, problem = workloads.get(one.problem.workload), one.problem
        inputs[place] = workload.inputs(problem, rng)
        shapes = workload.shapes(problem)
        for operand in workload.operands:
            if operand.role != "out" and operand.name in shapes:
                view = operands.view(inputs[place].operands[operand.name], problem.layout[operand.name], shapes[operand.name])
                given[f"{place}/{operand.name}"] = view.copy()
        given.update({f"{place}/{name}": value for name, value in inputs[place].scalars.items()})
    np.savez(tmp_path / "given.npz", **given)
    (tmp_path / "user.py").write_text(USER)
    words = [str(tmp_path / "user.py"), str(folder), str(tmp_path / "given.npz"), str(tmp_path / "made.npz"), *sites()]
    found = {one.info.platform for one in items} == {"NVIDIA CUDA"}  # by the loader; other unregistered libraries are the user's affair
    with nullcontext() if found else icd.vendors():
        completed = subprocess.run([sys.executable, "-I", *words], capture_output=True, text=True, timeout=240, env=processes.environment())
    assert completed.returncode == 0, completed.stderr
    result = np.load(tmp_path / "made.npz")
    for place, one in placed.items():
        workload, problem = workloads.get(one.problem.workload), one.problem
        for name, expected in workload.reference(problem, inputs[place]).items():
            memory = inputs[place].operands[name].copy()
            operands.view(memory, problem.layout[name], workload.shapes(problem)[name])[...] = result[f"{place}/{name}"]
            verdict = verify.compare(memory, expected, workload.bound(problem, one.config), name)
            assert verdict.ok, f"{problem.workload} {dict(problem.sizes)} {dict(one.config)}: {verdict.message}"


@pytest.mark.unoptimised
@pytest.mark.lengthy
@pytest.mark.thinned(1)
@pytest.mark.parametrize("name", workloads.names())
def test_every_workload_computes_without_portatile(name: str, opencl: Device, tmp_path: Path) -> None:
    rng = np.random.default_rng(new_seed(f"export on {opencl.info.id}"))
    workload = workloads.get(name)
    dtype = workload.dtypes[0]
    problems = workload.awkward(workload.problem(dict.fromkeys(workload.sizes, 64), dtype))
    packed = [problem for problem in problems if problem == workload.problem(problem.sizes, problem.dtype, problem.options)]
    by_size = sorted(packed or [workload.problem(dict.fromkeys(workload.sizes, 24), dtype)], key=workload.flops)
    problem = by_size[len(by_size) // 2]
    shipped = folders.write(tmp_path / "folder", [item(problem, workload.default(problem, opencl.info), opencl.info)])
    if name == "gemm_blocks":  # which has floats of eight bits
        assert [reason.partition(" ")[0] for reason in shipped.left_out] == ["gemm_blocks"]
        return
    assert not shipped.left_out
    assert shipped.binaries == shipped.programs > 0
    computed(tmp_path / "folder", shipped.items, rng, tmp_path)


@pytest.mark.unoptimised
@pytest.mark.drawn(1 / 2)
def test_split_k_images_and_padded_operands_too(opencl: Device, tmp_path: Path) -> None:
    """Several launches with temporaries between them; then again from the texts, with the binaries gone."""
    rng = np.random.default_rng(new_seed(f"split k on {opencl.info.id}"))
    gemm = workloads.get("gemm")
    problem = gemm.problem({"m": 37, "n": 29, "k": 150}, "float32", {"trans_a": "T"})
    padded = gemm.problem(
        {"m": 21, "n": 18, "k": 33}, "float32", {}, {"a": operands.padded((21, 33), 5, 3), "c": operands.padded((21, 18), 2)}
    )
    items = [
        item(problem, drawn(problem, opencl.info, rng, SPLIT_K=2, TXC=False, **SMALL), opencl.info),
        item(padded, drawn(padded, opencl.info, rng, FORM="cpu", PACK_A=False), opencl.info),
    ]
    if opencl.info.images:
        other = gemm.problem({"m": 20, "n": 24, "k": 16})
        items.append(item(other, drawn(other, opencl.info, rng, TXC=True, **SMALL | {"TR": 4, "TC": 4, "VL": 4}), opencl.info))
    if opencl.info.image_buffer_max:
        other = gemm.problem({"m": 23, "n": 24, "k": 19})
        items.append(item(other, presets.staged(tile(4, (4, 4), (8, 8), (1, 1), 8, True), "view", "view local").config(), opencl.info))
    shipped = folders.write(tmp_path / "folder", items)
    assert len(json.loads((tmp_path / "folder" / "kernels.json").read_text())["problems"][0]["launches"]) > 1
    computed(tmp_path / "folder", shipped.items, rng, tmp_path)
    for binary in (tmp_path / "folder" / "programs").glob("*.bin"):
        binary.write_bytes(b"damaged")
    computed(tmp_path / "folder", shipped.items, rng, tmp_path)


@pytest.mark.unoptimised
def test_a_problem_is_named_as_far_as_the_folder_needs(opencl: Device, tmp_path: Path, loader_of: Any) -> None:
    gemm = workloads.get("gemm")
    problems = [gemm.problem({"m": 8, "n": 8, "k": 8}, "float32", {"trans_a": trans}) for trans in "NT"]
    folders.write(tmp_path / "folder", [item(problem, gemm.default(problem, opencl.info), opencl.info) for problem in problems])
    loader = loader_of(tmp_path / "folder")
    with pytest.raises(LookupError, match="has 2 of gemm with"):
        loader.load("gemm", m=8, n=8, k=8)
    with pytest.raises(LookupError, match="trans_a=T"):
        loader.load("gemm", m=8, n=9, k=8)
    with pytest.raises(LookupError, match="no 'trsm'; it has gemm"):
        loader.load("trsm", m=8)
    with pytest.raises(LookupError, match=r"no such device here: abacus; there is .*OCL_ICD_VENDORS"):
        loader.load("gemm", m=8, n=8, k=8, trans_a="T", device="abacus")


@pytest.mark.unoptimised
def test_tuned_then_exported_then_imported(opencl: Device, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The commands one after another: the folder computes, and its results are another store's winner."""
    rng = np.random.default_rng(new_seed(f"export command on {opencl.info.id}"))
    sizes = ["-m", "33", "-n", "21", "-k", "17"]
    assert main(["tune", "gemm", *sizes, "--budget", "1", "--strategy", "random", "--device", opencl.info.id]) == 0
    folder = tmp_path / "folder"
    assert main(["export", str(folder), "--workload", "gemm", "--device", opencl.info.id]) == 0
    assert re.search(r"\d+ problems?, ", capsys.readouterr().out)
    with ResultStore.default() as store:
        (winner,) = store.leaders("gemm")
    written = json.loads((folder / "kernels.json").read_text())["problems"]  # what is shipped for the device goes with it
    assert dict(winner.config) in [problem["config"] for problem in written if problem["sizes"] == dict(winner.problem.sizes)]
    computed(folder, folders.tuned([winner]), rng, tmp_path)
    assert main(["import", str(folder), "--store", str(tmp_path / "other.sqlite")]) == 0
    with ResultStore(tmp_path / "other.sqlite") as store:
        assert winner in store.trials()
        assert len(store.trials()) == len(written)
    assert main(["export", str(folder), "--workload", "gemm", "--device", opencl.info.id, "--problem", "m=9 n=8 k=7 trans_b=t"]) == 0
    assert "m=9 n=8 k=7" in capsys.readouterr().out
    assert json.loads((folder / "kernels.json").read_text())["problems"][0]["options"] == {"trans_a": "N", "trans_b": "T"}


def test_every_trial_as_t4(opencl: Device, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(1)
    with ResultStore.default() as store:
        for size in (8, 16):
            problem = workloads.get("gemm").problem({"m": size, "n": 8, "k": 8})
            for _ in range(3):
                store.add(item(problem, drawn(problem, opencl.info, rng, **SMALL), opencl.info).trial)  # type: ignore[arg-type]
        before = store.trials()
    assert main(["export", str(tmp_path / "t4"), "--format", "t4"]) == 0
    files = sorted((tmp_path / "t4").glob("*_T4.json"))
    assert len(files) == 2
    assert main(["import", *map(str, files), "--store", str(tmp_path / "other.sqlite")]) == 0
    with ResultStore(tmp_path / "other.sqlite") as store:
        assert {trial.problem.sizes["m"] for trial in store.trials()} == {8, 16}
        assert all(trial in before for trial in store.trials())


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ([], "no stored result matches"),
        (["--format", "t4"], "no stored result matches"),
        (["--workload", "gem"], "Did you mean 'gemm'"),
        (["--problem", "m=3"], "--problem needs --workload"),
        (["--workload", "gemm", "--problem", "m=3 n=3"], "'k'"),
        (["--workload", "gemm", "--problem", "m=3 n=3 k=x"], "whole number"),
        (["--workload", "gemm", "--problem", "m=3 n=3 kk=3"], "Did you mean 'k'"),
        (["--workload", "gemm", "--problem", "m"], "NAME=VALUE"),
        (["--workload", "gemm", "--problem", "m=3 n=3 k=3", "--device", "no such device"], "no device matches"),
    ],
)
def test_mistakes_end_with_2(args: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", str(tmp_path / "folder"), *args]) == 2
    assert message in capsys.readouterr().err


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "to_my_aunt").write_text("dear aunt")
    assert main(["export", str(tmp_path / "letters"), "--workload", "gemm", "--problem", "m=3 n=3 k=3"]) == 2
    assert "holds something else" in capsys.readouterr().err
    assert [path.name for path in (tmp_path / "letters").iterdir()] == ["to_my_aunt"]
