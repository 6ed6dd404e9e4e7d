"""One seed decides what a run of the tests draws: a test's draws follow from it and the test's id; shards share the tests out."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support import seeds

TESTS = Path(__file__).parents[1]
TEXT = """
import os, pytest
from support.seeds import new_seed, sometimes

@pytest.mark.parametrize("case", range(40))
def test_of_many(case):
    print("drawn", os.environ["PYTEST_CURRENT_TEST"].split()[0], new_seed("a"), new_seed("b"), new_seed("a"))
    sometimes(1 / 2)
    print("ran", case)

@pytest.mark.drawn(1e-9)
@pytest.mark.parametrize("case", range(3))
def test_rare(case):
    print("ran", 200 + case)

@pytest.mark.drawn(1 / 2)
@pytest.mark.parametrize("case", range(40))
def test_marked(case):
    print("ran", 100 + case)
"""


def run(folder: Path, *options: str, seed: int = 5) -> tuple[dict[str, tuple[int, ...]], set[int]]:
    """What each test drew, and which were not skipped."""
    (folder / "test_draws.py").write_text(TEXT)
    words = [sys.executable, "-m", "pytest", "-p", "conftest", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", str(folder), "-qs"]
    settings = {"PYTHONPATH": str(TESTS), seeds.VARIABLE: str(seed), "PORTATILE_DRAWS": "0", "PYTEST_ADDOPTS": ""}
    completed = subprocess.run([*words, *options, str(folder)], env={**os.environ, **settings}, cwd=folder, capture_output=True, text=True)
    assert f"{seeds.VARIABLE}={seed}" in completed.stdout, completed.stdout + completed.stderr
    lines = [line.lstrip(".s").split() for line in completed.stdout.splitlines()]
    drawn = {line[1]: tuple(map(int, line[2:])) for line in lines if line[:1] == ["drawn"]}
    return drawn, {int(line[1]) for line in lines if line[:1] == ["ran"]}


@pytest.mark.skipif(seeds.on_gpu_machine(), reason="nothing is left out on a machine with a GPU")
def test_a_seed_repeats_a_run_and_shards_share_it(tmp_path: Path) -> None:
    """Whatever else runs: two halves draw what the whole draws; another seed draws others."""
    halves = [run(tmp_path, "--shard", f"{part}/2") for part in (1, 2)]
    drawn, ran = run(tmp_path)
    assert len(drawn) == 40
    assert sorted(name for half, _ in halves for name in half) == sorted(drawn)
    assert {**halves[0][0], **halves[1][0]} == drawn
    assert halves[0][1] | halves[1][1] == ran
    assert all(0 < sum(first <= case < first + 40 for case in ran) < 40 for first in (0, 100))
    assert sum(case >= 200 for case in ran) == 1, "one of each function runs"
    assert len({seed for of_test in drawn.values() for seed in of_test}) == 120
    others, ran_then = run(tmp_path, seed=6)
    assert others.keys() == drawn.keys()
    assert all(others[name] != drawn[name] for name in drawn)
    assert ran_then != ran


def test_shards_share_out_all_tests() -> None:
    names = [f"tests/unit/test_a.py::test_b[{number}]" for number in range(300)]
    parts = [{name for name in names if seeds.in_shard(name, f"{part}/3")} for part in (1, 2, 3)]
    assert sorted(name for part in parts for name in part) == sorted(names)
    assert min(map(len, parts)) > 60
    for wrong in ("0/3", "4/3", "x/3", "1"):
        with pytest.raises(ValueError, match="is no shard"):
            seeds.in_shard(names[0], wrong)
