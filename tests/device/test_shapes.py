"""Many shapes on the command line: searched within one budget, crossed, and the regret of what would be chosen without them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from portatile.cli import main
from portatile.store import Query, ResultStore

SHAPES = "m,n,k\n33,21,17\n40,21,17\n33,30,20\n"


@pytest.fixture
def file(own_directories: None, tmp_path: Path) -> str:
    path = tmp_path / "shapes.csv"
    path.write_text(SHAPES)
    return str(path)


@pytest.mark.unoptimised
@pytest.mark.drawn(1 / 6)
def test_shapes_share_what_they_find(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["tune", "matmul", "--shapes", file, "--budget", "15", "--strategy", "random", "--json"]
    assert main(words) == 0
    out, err = capsys.readouterr()
    document = json.loads(out)
    shapes = [tuple(row["problem"]["sizes"].values()) for row in document["shapes"]]
    assert sorted(shapes) == [(33, 21, 17), (33, 30, 20), (40, 21, 17)]
    assert document["unreached"] == []
    assert document["shapes"][0]["warm_starts"] == 0
    assert all(row["warm_starts"] > 0 for row in document["shapes"][1:])
    assert all(1 <= row["found_at"] <= row["trials"] for row in document["shapes"])
    assert document["crossed"] <= document["wanted"]
    assert set(document["regrets"]) == {"dispatcher", "nearest", "default"}
    for regrets in document["regrets"].values():
        assert len(regrets["shapes"]) == 3
        assert all(row["regret"] is None or row["regret"] >= 0 for row in regrets["shapes"])
    assert "searching 1/3" in err
    with ResultStore.default() as store:
        assert {trial.status for trial in store.trials(Query(workload="matmul"))} <= {"ok", "skipped", "launch"}

    assert main(["results", "--regret"]) == 0
    shown = capsys.readouterr().out
    assert all(word in shown for word in ("matmul on", "the choice", "nearest shape's", "not measured"))
    assert main(["results", "--regret", "--json"]) == 0
    (later,) = json.loads(capsys.readouterr().out)
    assert len(later["regrets"]["dispatcher"]["shapes"]) == 3


def test_mistakes_end_with_2(file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = tmp_path / "bad"
    bad.write_text("1 2\n")
    assert main(["tune", "gemm", "--shapes", str(bad)]) == 2
    assert "line 1" in capsys.readouterr().err
    bad.write_text('{"m": null, "n": 2, "k": 3}\n')
    assert main(["tune", "gemm", "--shapes", str(bad)]) == 2
    assert main(["tune", "gemm", "--shapes", str(tmp_path / "none")]) == 2
    assert main(["tune", "gemm", "--shapes", file, "-m", "3"]) == 2
    assert main(["tune", "gemm", "--help"]) == 0
    assert "--shapes" in capsys.readouterr().out
    assert main(["results", "--regret"]) == 0
    assert "no stored result matches" in capsys.readouterr().out
