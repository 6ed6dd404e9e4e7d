"""``scripts/replay``: a tree is equal to itself, and a planted change of a plan or of a kernel's code is found; comments are not code."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from replaying import compare, texts

ROOT = Path(__file__).parents[2]
SCRIPTS = ROOT / "scripts"


@pytest.fixture
def planted(tmp_path: Path) -> Path:
    """A copy of the package: one workload's kernel computes something else, one has another comment, one another plan."""
    shutil.copytree(ROOT / "src", tmp_path / "src")  # with what is compiled of it
    workloads = tmp_path / "src" / "portatile" / "workloads"
    _edit(workloads / "stream", "*.cl", " restrict x_memory", " x_memory")
    _edit(workloads / "matmul", "*.cl", "__kernel ", "/* another\n comment */ __kernel // and one\n")
    _edit(workloads / "peak", "*.py", 'Launch(source, "peak"', 'Launch(source, "other"')
    return tmp_path


def _edit(folder: Path, pattern: str, old: str, new: str) -> None:
    texts = {path: path.read_text() for path in folder.glob(pattern)}
    assert any(old in text for text in texts.values())
    for path, text in texts.items():
        path.write_text(text.replace(old, new))


def test_planted_changes_are_found(planted: Path, tmp_path: Path) -> None:
    """Only those: what is left of the corpus is equal. A difference with a reason is accepted, the other is shown and fails."""
    reasons = tmp_path / "reasons.toml"
    reasons.write_text('[[accepted]]\ncase = "stream/*"\nlines = "x_memory|text|cuda"\nreason = "planted"\n')
    words = [str(SCRIPTS / "replay"), str(planted), "--json", "--seed", "3", "--reasons", str(reasons), "--show", "1000"]
    words += ["--problems", "15", "--configs", "1", "--jobs", "1", "--no-recorded"]
    words += [f"--workload={name}" for name in ("stream", "matmul", "peak", "syrk")]
    run = subprocess.run([sys.executable, *words], capture_output=True, text=True, check=False)
    assert run.returncode == 1, run.stderr
    report = json.loads(run.stdout)
    assert {name.partition(" ")[0] for name, counts in report["groups"].items() if counts["different"]} == {"stream", "peak"}
    assert report["equal"]
    assert {(entry["case"].partition("/")[0], entry["reason"]) for entry in report["explained"]} == {("stream", "planted")}
    assert all("-launch other" in "\n".join(entry["diff"]) for entry in report["unexplained"])


def _collected(text: str, **case: object) -> compare.Collected:
    """One plan with one text, as ``collect`` writes them."""
    known: texts.Text = {"text": texts.code(text), "defines": [["N", "4"]], "options": []}
    name = texts.digest(known)
    found = {"id": "w/float32/pocl-avx2/0", "workload": "w", "device": "pocl-avx2", "kind": "default", "error": "", "illegal": ""}
    return {"cases": [{**found, "lines": [f"  text {name}"], **case}], "texts": {name: known}, "prelude": "", "cuda": []}


TEXT = "kernel void f(global int *a) { a[0] = N; }"


@pytest.mark.parametrize("other", [TEXT, f"// a comment\n{TEXT}", "kernel /*\n*/ void f(global int *a)\n{\n  a[0] = 4;\n}\n"])
def test_comments_lines_and_macros_are_not_code(other: str) -> None:
    report = compare.compare(_collected(TEXT), _collected(other), [])
    assert (report.equal, report.different) == (3, [])  # the plan, and what stands before texts for each compiler


def test_other_code_a_failure_and_an_illegal_configuration_are_differences() -> None:
    for other in (_collected(TEXT.replace("0", "1")), _collected(TEXT, error="KeyError: 'a'"), _collected(TEXT, illegal="violates a rule")):
        (difference,) = compare.compare(_collected(TEXT), other, []).unexplained
        assert compare.changed(difference.diff)
        for lines, explained in (("", True), (".", True), ("a\\[", False)):
            report = compare.compare(_collected(TEXT), other, [compare.Reason("w/*", "meant", lines)])
            assert bool(report.explained) is explained
        assert compare.compare(_collected(TEXT), other, [compare.Reason("v/*", "meant")]).unexplained
