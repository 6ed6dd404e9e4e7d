"""The binary cache: what goes in comes out, and what is damaged, foreign or too much does not."""

import os
import random
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from portatile.cache import Cache
from portatile.records import digest
from support.seeds import new_seed

KEY = digest("key")


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "cache", 2**20)


def only_file(cache: Cache) -> Path:
    (path,) = cache.root.glob("??/*.bin")
    return path


def test_returns_what_was_stored(cache: Cache) -> None:
    assert cache.get(KEY) is None
    cache.put(KEY, b"binary\0code")
    assert cache.get(KEY) == b"binary\0code"
    assert cache.info().entries == 1
    assert cache.clear() == 1
    assert cache.get(KEY) is None


@pytest.mark.parametrize("damage", ["truncate", "flip", "empty", "garbage"])
def test_damaged_entry_is_removed(cache: Cache, damage: str) -> None:
    cache.put(KEY, b"x" * 1000)
    path = only_file(cache)
    raw = bytearray(path.read_bytes())
    if damage == "truncate":
        raw = raw[:-1]
    elif damage == "flip":
        raw[-1] ^= 1
    elif damage == "empty":
        raw = bytearray()
    else:
        raw = bytearray(random.Random(new_seed("noise")).randbytes(len(raw)))
    path.write_bytes(raw)
    assert cache.get(KEY) is None
    assert not path.exists()


def test_entry_under_another_key_is_not_trusted(cache: Cache) -> None:
    cache.put(KEY, b"mine")
    other = KEY[:2] + digest("other")[2:]
    only_file(cache).rename(cache.root / other[:2] / f"{other[2:]}.bin")
    assert cache.get(other) is None


def test_entry_that_others_may_write_is_not_trusted(cache: Cache) -> None:
    cache.put(KEY, b"mine")
    only_file(cache).chmod(0o666)
    assert cache.get(KEY) is None


@pytest.mark.parametrize("thing", ["folder", "pipe"])
def test_what_is_no_file_is_no_entry(cache: Cache, thing: str) -> None:
    cache.put(KEY, b"binary")
    (path,) = cache.root.glob("??/*.bin")
    path.unlink()
    path.mkdir() if thing == "folder" else os.mkfifo(path)
    assert cache.get(KEY) is None
    cache.put(KEY, b"again")
    assert cache.get(KEY) == b"again"


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="only root may give a file away")
def test_foreign_entry_is_not_trusted(cache: Cache) -> None:
    cache.put(KEY, b"mine")
    os.chown(only_file(cache), 12345, 12345)
    assert cache.get(KEY) is None


def test_symbolic_link_is_not_followed(cache: Cache, tmp_path: Path) -> None:
    cache.put(KEY, b"mine")
    path = only_file(cache)
    target = tmp_path / "elsewhere"
    path.rename(target)
    path.symlink_to(target)
    assert cache.get(KEY) is None


def test_is_bounded_and_drops_the_least_recently_used(tmp_path: Path) -> None:
    cache = Cache(tmp_path, 3500)
    keys = [digest(str(i)) for i in range(4)]
    for age, key in enumerate(keys):
        cache.put(key, bytes(1000))
        path = cache.root / key[:2] / f"{key[2:]}.bin"
        os.utime(path, (1000 + age, 1000 + age))
    cache.put(digest("last"), bytes(1000))
    assert cache.info().nbytes <= 3500
    assert cache.get(keys[0]) is None
    assert cache.get(digest("last")) is not None


def test_unwritable_folder_warns_once(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    cache = Cache(blocked / "cache", 1000)
    with pytest.warns(RuntimeWarning, match="PORTATILE_CACHE_DIR"):
        cache.put(KEY, b"lost")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cache.put(KEY, b"lost")
    assert cache.get(KEY) is None


def test_asking_whether_it_keeps_leaves_nothing_behind(cache: Cache) -> None:
    assert cache.keeps()
    assert cache.info().entries == 0
    (cache.root.parent / "file").write_text("not a folder")
    with pytest.warns(RuntimeWarning, match="PORTATILE_CACHE_DIR"):
        assert not Cache(cache.root.parent / "file", 1000).keeps()


HAMMER = """
import sys
from pathlib import Path
from portatile.cache import Cache
from portatile.records import digest

cache = Cache(Path(sys.argv[1]), 20_000)
wrong = 0
for i in range(60):
    key = digest(str(i % 7))
    cache.put(key, (str(i % 7) * 700).encode())
    found = cache.get(key)
    wrong += found is not None and found != (str(i % 7) * 700).encode()
sys.exit(wrong)
"""


def test_processes_share_a_folder(tmp_path: Path) -> None:
    workers = [subprocess.Popen([sys.executable, "-c", HAMMER, str(tmp_path)]) for _ in range(3)]
    assert [worker.wait(timeout=120) for worker in workers] == [0, 0, 0]
    assert not list(tmp_path.glob("??/.new-*"))


def test_entries_are_counted_only_where_the_folder_may_be_full(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    counted, entries = [], cache.entries
    monkeypatch.setattr(cache, "entries", lambda: counted.append(1) or entries())
    for number in range(200):
        cache.put(digest(str(number)), bytes(1000))
    assert len(counted) < 10
    for number in range(300):
        cache.put(digest(str(number)), bytes(10_000))
        assert number % 50 or sum(size for _, size, _ in entries()) <= cache.limit
