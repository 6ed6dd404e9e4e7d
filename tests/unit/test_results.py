"""`portatile results`: what the store holds, for people and as JSON that can be read back."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from portatile import cli
from portatile.cli import _console
from portatile.records import Problem, from_json
from portatile.store import ResultStore
from portatile.trials import Trial
from portatile.workloads import get
from support.trials import trial


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store with two problems on one device, of one of which nothing was valid."""
    problem = get("matmul").problem({"m": 64, "n": 64, "k": 64})
    other = Problem("matmul", {"m": 1, "n": 1, "k": 1}, "float32")
    with ResultStore(tmp_path / "other.sqlite") as store:
        for one in (trial(1, 2e-3, problem=problem), trial(2, 1e-3, problem=problem), trial(3, status="wrong", problem=problem)):
            store.add(one)
        store.add(trial(4, status="crash", problem=other))
    return tmp_path / "other.sqlite"


def test_text(path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_console.out, "width", 250)
    assert cli.main(["results", "--store", str(path)]) == 0
    out = capsys.readouterr().out
    assert "on chip (platform, driver 1.0)" in out
    one = next(line for line in out.splitlines() if "m=64" in line)
    assert "matmul m=64 n=64 k=64 float32" in one
    assert "TILE=2" in one
    assert "1 ms" in one
    assert "0.524 Gflop/s" in one
    assert "2 ok, 1 wrong" in one
    other = next(line for line in out.splitlines() if "m=1 " in line)
    assert "nothing valid" in other
    assert "1 crash" in other


def test_of_an_edited_kernel_the_newest_text_is_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_console.out, "width", 250)
    options = {"arrays": "x[64]", "version": "a", "checked": "reference"}
    scale = Problem("kernel:scale", {"n": 64}, "float32", options)
    texts = [replace(scale, options={**options, "version": version}) for version in "abc"]
    other = replace(scale, options={**options, "arrays": "x[32]"}, sizes={"n": 32})
    path = str(tmp_path / "own.sqlite")
    with ResultStore(Path(path)) as store:
        for seconds, day, problem in ((1e-3, 2, texts[1]), (2e-3, 3, texts[2]), (3e-3, 1, texts[0]), (4e-3, 1, other)):
            store.add(replace(trial(seconds * 1e3, seconds, problem=problem), time=f"2026-01-0{day}T00:00:00+00:00"))
        kept = store.trials()
    assert cli.main(["results", "--store", path]) == 0
    rows = [line for line in capsys.readouterr().out.splitlines() if "kernel:scale" in line]
    assert len(rows) == 2, "other arrays are another problem"
    assert rows[0].startswith("kernel:scale n=64 float32, and 2 earlier texts (--all)  ")
    assert "  2 ms  " in rows[0], "the text tuned last, not the fastest"
    assert rows[1].startswith("kernel:scale n=32 float32  ")
    assert cli.main(["results", "--store", path, "--all"]) == 0
    every = [line for line in capsys.readouterr().out.splitlines() if "kernel:scale" in line]
    assert len(every) == 4
    assert "earlier" not in " ".join(every)
    assert cli.main(["results", "--store", path, "--json"]) == 0
    assert from_json(capsys.readouterr().out, list[Trial]) == kept
    assert cli.main(["results", "--store", path, "scale"]) == 2
    assert "write kernel:scale" in capsys.readouterr().err


def test_only_what_differs_from_the_default(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_console.out, "width", 250)
    workload = get("matmul")
    problem = workload.problem({"m": 64, "n": 64, "k": 64})
    known = trial(1, 1e-3, problem=problem)
    default = workload.default(problem, known.device)
    for number, config in enumerate(({**default, "BLOCK": 8}, default)):
        with ResultStore(tmp_path / f"{number}.sqlite") as store:
            store.add(replace(known, config=config))
        assert cli.main(["results", "--store", str(tmp_path / f"{number}.sqlite")]) == 0
    first, second = [line for line in capsys.readouterr().out.splitlines() if "m=64" in line]
    assert "  BLOCK=8  " in first
    assert "the default" in second


def test_forget(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with ResultStore(path) as store:
        store.add(trial(5, 1.0, problem=get("gemm").problem({"m": 4, "n": 4, "k": 4})))
    assert cli.main(["results", "--store", str(path), "--forget"]) == 2
    assert "needs WORKLOAD" in capsys.readouterr().err
    assert cli.main(["results", "matmull", "--store", str(path), "--forget"]) == 2
    assert "Did you mean 'matmul'" in capsys.readouterr().err
    assert cli.main(["results", "matmul", "--store", str(path), "--device", "abacus", "--forget"]) == 0
    assert "removed 0 trials" in capsys.readouterr().out
    assert cli.main(["results", "matmul", "--store", str(path), "--device", "CHIP", "--forget"]) == 0
    assert "removed 4 trials" in capsys.readouterr().out
    with ResultStore(path) as store:
        assert [one.problem.workload for one in store.trials()] == ["gemm"]


def test_json_is_what_a_store_takes_in(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["results", "--store", str(path), "--json"]) == 0
    with ResultStore(path) as store:
        assert from_json(capsys.readouterr().out, list[Trial]) == store.trials()
    assert cli.main(["results", "--store", str(path), "--json", "--best"]) == 0
    assert [one.config["TILE"] for one in from_json(capsys.readouterr().out, list[Trial])] == [2]


def test_selection_and_nothing(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["results", "--store", str(path), "--device", "abacus"]) == 0
    assert "nothing" in capsys.readouterr().out
    assert cli.main(["results", "--store", str(path), "--device", "CHIP", "--json"]) == 0
    assert len(from_json(capsys.readouterr().out, list[Trial])) == 4
    assert cli.main(["results", "--store", str(path), "--workload", "matmull"]) == 2
    assert "Did you mean 'matmul'" in capsys.readouterr().err
