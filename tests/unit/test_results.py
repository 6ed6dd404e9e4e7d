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
