"""`portatile results`: what the store holds, for people and as JSON that can be read back."""

from __future__ import annotations

from pathlib import Path

import pytest

from portatile import cli
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


def test_text(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["results", "--store", str(path)]) == 0
    out = capsys.readouterr().out
    assert "matmul m=64 n=64 k=64 float32  on chip (platform, driver 1.0)" in out
    assert "1 ms  0.524 Gflop/s  best of 2 ok, 1 wrong" in out
    assert "TILE=2" in out
    assert "nothing valid: 1 crash" in out


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
