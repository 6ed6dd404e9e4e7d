"""What the architecture promises of additions: a workload, a form of GEMM, a back end and a device model are new files and nothing else."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "src" / "portatile"


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package, which gets one of each."""
    copy = tmp_path_factory.mktemp("tree") / "portatile"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    before = {path: path.read_bytes() for path in copy.rglob("*") if path.is_file()}
    added(copy, "workloads/stream", "workloads/flow", {'name = "stream"': 'name = "flow"'})
    added(copy, "workloads/gemm/forms/thin", "workloads/gemm/forms/slim", {'"thin"': '"slim"', "forms.thin": "forms.slim"})
    added(copy, "device/amdgcn", "device/other", {'"amdgcn"': '"other"', "device.amdgcn": "device.other", "rank=-1": "rank=-2"})
    added(copy, "workloads/gemm/models/sm_90.json", "workloads/gemm/models/sm_99.json", {'"sm_90"': '"sm_99"', "1980.0": "990.0"})
    assert all(path.read_bytes() == content for path, content in before.items()), "no file that was there is another"
    return copy.parent


def added(package: Path, like: str, name: str, words: Mapping[str, str]) -> None:
    """A folder or file as one that is there, with other words."""
    sources = [package / like] if (package / like).is_file() else sorted(path for path in (package / like).rglob("*") if path.is_file())
    for source in sources:
        text = source.read_text()
        for old, new in words.items():
            text = text.replace(old, new)
        target = package / name / str(source.relative_to(package / like)).replace("thin", "slim")
        target.parent.mkdir(exist_ok=True)
        target.write_text(text)


WORKLOAD = """
from portatile import workloads
from support.devices import GPU

flow = workloads.get("flow")
problem = flow.problem({"n": 1000})
config = flow.default(problem, GPU)
assert flow.space(problem, GPU).violated(config) is None
assert flow.plan(problem, config, GPU).steps[0].source.text
"""
FORM = """
from portatile import workloads
from portatile.workloads.gemm.forms import forms
from support.devices import GPU

gemm = workloads.get("gemm")
problem = gemm.problem({"m": 4000, "n": 4, "k": 4000})
config = forms()["slim"].default(problem, GPU, 1).config()
assert config["FORM"] == "slim"
assert gemm.space(problem, GPU).violated(config) is None
assert gemm.plan(problem, config, GPU).steps[-1].source.file == "slim.cl"
"""
BACK_END = """
from portatile import device

assert device.backends()["other"].offline
assert device.backends()["other"].survey() is not None
"""
MODEL = """
from portatile.workloads.gemm.forms.gpu import costs
from support.devices import on_paper
from dataclasses import replace

timed = on_paper("gpu")
new = costs.known(replace(timed, architecture="sm_99"), "float32")
assert new.products == costs.known(timed, "float32").products / 2
"""


@pytest.mark.parametrize("program", [WORKLOAD, FORM, BACK_END, MODEL], ids=["a workload", "a form of GEMM", "a back end", "a device model"])
def test_an_addition_is_new_files(tree: Path, program: str) -> None:
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tree), str(Path(__file__).parents[1])]), "PYTHONDONTWRITEBYTECODE": "1"}
    completed = subprocess.run([sys.executable, "-c", program], env=variables, cwd=tree, capture_output=True, text=True, check=False)
    assert completed.returncode == 0, completed.stderr[-2000:]
