"""What is drawn at random in a run of the tests: all of it follows from one seed, so that the same seed repeats the run.

``PORTATILE_TEST_SEED`` is that seed, a number; by default it follows from the commit, so that each commit draws anew. A test's own
draws follow from it and the test's id: they do not depend on which other tests run, in which order or in which process.
``PORTATILE_DRAWS`` (a number, or ``all``) asks for every case where otherwise a share is drawn, and for so many random ones of each.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from collections import Counter
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path

import pytest

VARIABLE = "PORTATILE_TEST_SEED"
DRAWS = int(os.environ.get("PORTATILE_DRAWS", "0").replace("all", "3"))
"""How many random cases of a kind; 0: few, and of alike tests a share, where compiling takes long."""

_SCALE = 1 / 10  # of each share: what a run of ten minutes on two cores holds
_always: set[str] = set()  # ids of tests that run whatever is drawn
_ROOT = Path(__file__).parents[2]
_RANGE = 2**32
_drawn: Counter[tuple[str, str]] = Counter()


def hashed(*parts: object) -> int:
    """A number below 2^32 that follows from ``parts`` alone."""
    return int.from_bytes(hashlib.blake2b(repr(parts).encode(), digest_size=4).digest())


@cache
def run_seed() -> int:
    """The seed of this run of the tests: the one given, or the commit's."""
    given = os.environ.get(VARIABLE, "")
    return int(given) if given else hashed(_commit())


def _commit() -> str:
    """The commit that is checked out; nothing where the tests run without a repository."""
    try:
        completed = subprocess.run(["git", "-C", _ROOT, "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return completed.stdout.strip()


def new_seed(purpose: str) -> int:
    """A seed that is the same in each run with one run seed, printed, so that pytest shows it beside a failure.

    It follows from the test that runs, the purpose, and how often the test asked for that purpose before.
    """
    test = _test()
    if not any(known == test for known, _ in _drawn):
        _drawn.clear()
    _drawn[test, purpose] += 1
    seed = hashed(run_seed(), test, purpose, _drawn[test, purpose])
    print(f"{purpose}: seed {seed}, of {VARIABLE}={run_seed()}")
    return seed


def drawn(share: float, test: str, beside_a_gpu: bool = False) -> bool:
    """Whether a test runs of many alike ones, of which a tenth of a share does: others for each run seed, one of each function at least.

    ``test`` is its id. On a machine with a GPU every one runs, unless ``beside_a_gpu`` is said.
    """
    every = DRAWS or test in _always or (on_gpu_machine() and not beside_a_gpu)
    return bool(every) or _place(test) < share * _SCALE * _RANGE


def sometimes(share: float, beside_a_gpu: bool = False) -> None:
    """Skip the test that runs unless it is ``drawn``."""
    if not drawn(share, _test(), beside_a_gpu):
        pytest.skip(f"not drawn for {VARIABLE}={run_seed()}; PORTATILE_DRAWS=all asks for all")


def leave_out(config: pytest.Config, items: list[pytest.Item], left_out: Callable[[pytest.Item], bool]) -> None:
    """Take tests out of the collection, before each of thousands would be set up to be skipped."""
    without = [item for item in items if left_out(item)]
    if without:
        config.hook.pytest_deselected(items=without)
        gone = set(without)
        items[:] = [item for item in items if item not in gone]


def keep_one_of_each(groups: Iterable[Iterable[str]]) -> None:
    """Of each group of tests, by their ids, one runs whatever is drawn: another for each run seed."""
    _always.update(min(group, key=_place) for group in groups)


def _place(test: str) -> int:
    """Where a test stands among those that a share is drawn of."""
    return hashed(run_seed(), test, "drawn")


@cache
def on_gpu_machine() -> bool:
    """Whether this machine has an NVIDIA GPU: there the tests of what runs on one leave nothing out."""
    return Path("/proc/driver/nvidia/version").exists()


def in_shard(test: str, shard: str) -> bool:
    """Whether the test of that id belongs to ``i/n``, part i of n from 1 on; raises ValueError where that is no part."""
    result = re.fullmatch(r"(\d+)/(\d+)", shard)
    if result is None or not 1 <= int(result[1]) <= int(result[2]):
        raise ValueError(f"{shard!r} is no shard: 1/4 to 4/4 are those of four")
    return hashed(test) % int(result[2]) == int(result[1]) - 1


def _test() -> str:
    """The id of the test that runs, whatever phase it is in."""
    return os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]
