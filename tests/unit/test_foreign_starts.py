"""What other tuners found orders the first trials: read, translated, made legal, kept and found again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from portatile import cli, workloads
from portatile.errors import ArgumentError
from portatile.formats import clblast
from portatile.tuning.search import foreign_starts
from support.devices import DEVICES

pytestmark = pytest.mark.usefixtures("own_directories")

GPU = DEVICES["gpu"]
GEMM = workloads.get("gemm")
NAMES = ("KWG", "KWI", "MDIMA", "MDIMC", "MWG", "NDIMB", "NDIMC", "NWG", "SA", "SB", "STRM", "STRN", "VWM", "VWN")
HAWAII = dict(zip(NAMES, (16, 2, 32, 32, 128, 32, 8, 64, 1, 1, 1, 1, 4, 2), strict=True))
OTHER = dict(zip(NAMES, (32, 2, 8, 8, 64, 16, 16, 64, 1, 1, 0, 0, 4, 4), strict=True))


def database(*entries: tuple[str, dict[str, int], float], precision: str = "32") -> dict[str, Any]:
    """As CLBlast's scripts write it."""
    return {
        "sections": [
            {
                "kernel_family": "xgemm",
                "kernel": "Xgemm",
                "precision": precision,
                "clblast_device_name": device,
                "arg_m": "1024",
                "arg_n": "1024",
                "arg_k": "1024",
                "parameter_names": list(config),
                "results": [[",".join(map(str, config.values())), time]],
            }
            for device, config, time in entries
        ]
    }


def written(path: Path, document: object) -> Path:
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def test_the_database_and_a_tuners_file_say_the_same() -> None:
    tuned = {
        "kernel_family": "xgemm_2", "precision": "32", "clblast_device_name": "Hawaii", "arg_m": "1024", "arg_n": "1024", "arg_k": "1024",
        "results": [{"kernel": "Xgemm", "parameters": {**HAWAII, "PRECISION": 32}, "time": 1.5}],
    }  # fmt: skip
    (one,), (other,) = clblast.read(tuned), clblast.read(database(("Hawaii", HAWAII, 1.5)))
    assert one == other
    assert (one.dtype, one.sizes, one.seconds) == ("float32", {"m": 1024, "n": 1024, "k": 1024}, 0.0015)


@pytest.mark.parametrize("result", [["1,2"], ["1,2", 1.0], {"parameters": {"MWG": "x"}, "time": 1.0}, 5])
def test_what_is_malformed_is_refused_with_its_place(result: object) -> None:
    document = database(("Hawaii", HAWAII, 1.5))
    document["sections"][0]["results"] = [result]
    with pytest.raises(ArgumentError, match=r"\$\.sections\[0\]\.results\[0\]"):
        clblast.read(document)


def test_the_contiguous_dimension_becomes_columns() -> None:
    meant = GEMM.translated(HAWAII)
    assert (meant["TBC"], meant["TBR"]) == (32, 8)
    assert int(meant["TBC"]) * int(meant["TC"]) * int(meant["TCR"]) == HAWAII["MWG"]
    assert int(meant["TBR"]) * int(meant["TR"]) * int(meant["TRR"]) == HAWAII["NWG"]
    assert GEMM.translated({"WGD": 32, "MDIMCD": 8, "NDIMCD": 8, "VWMD": 2, "VWND": 1, "KWID": 2})["SM"] is True
    assert GEMM.translated({"block_size_x": 16}) == {}


def test_starts_are_legal_near_and_of_the_own_device_first(tmp_path: Path) -> None:
    path = written(tmp_path / "db.json", database(("Hawaii", HAWAII, 0.1), (GPU.name, OTHER, 5.0)))
    assert foreign_starts.keep(foreign_starts.read(path)) == 2
    assert foreign_starts.keep(foreign_starts.read(path)) == 2
    problem = GEMM.problem({"m": 1024, "n": 1024, "k": 1024})
    result = foreign_starts.starts(GEMM, problem, GPU)
    space = GEMM.space(problem, GPU)
    assert len(result) == 2
    assert all(space.violated(config) is None for config in result)
    assert (result[0]["TBC"], result[0]["TBR"]) == (OTHER["MDIMC"], OTHER["NDIMC"])
    assert foreign_starts.starts(GEMM, GEMM.problem({"m": 1024, "n": 1024, "k": 1024}, "float64"), GPU) == ()
    assert foreign_starts.starts(workloads.get("triangular"), workloads.get("triangular").problem({"m": 64, "n": 64}), GPU) == ()


def test_a_blocking_of_work_groups_says_nothing_to_a_form_without_them(tmp_path: Path) -> None:
    foreign_starts.keep(foreign_starts.read(written(tmp_path / "db.json", database(("Hawaii", HAWAII, 0.1)))))
    problem = GEMM.problem({"m": 512, "n": 512, "k": 512})
    assert foreign_starts.starts(GEMM, problem, DEVICES["cpu"]) == ()


def test_caches_of_kernel_tuner_are_understood_by_their_parameters(tmp_path: Path) -> None:
    rows = {",".join(map(str, config.values())): {**config, "time": time} for config, time in ((HAWAII, 2.0), (OTHER, 1e20))}
    cache = {
        "device_name": "A4000",
        "kernel_name": "gemm_fast",
        "problem_size": [4096, 4096],
        "tune_params_keys": list(NAMES),
        "cache": rows,
    }
    (one,) = foreign_starts.read(written(tmp_path / "cache.json", cache))
    assert (one.device, one.config["MWG"]) == ("A4000", 128)
    cache["tune_params_keys"], cache["cache"] = ["block_size_x"], {"16": {"block_size_x": 16, "time": 1.0}}
    assert foreign_starts.read(written(tmp_path / "cache.json", cache)) == []


def test_import_says_what_is_usable(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path / "db.json", database(("Hawaii", HAWAII, 0.1), ("Ellesmere", OTHER, 5.0)))
    assert cli.main(["import", str(path)]) == 0
    output = capsys.readouterr().out
    assert "2 configurations of CLBlast's xgemm, usable for gemm" in output
    assert "the fastest 2 are kept" in output


def test_suggestions_differ_among_the_fastest() -> None:
    """The fastest first, then not its neighbours but what is far from all before; nothing beyond the first few."""
    configs = [{"x": x, "y": y, "z": 0} for x, y in ((1, 1), (1, 2), (2, 2), (1, 3), *((1, y) for y in range(4, 8)), (9, 9))]
    assert foreign_starts.spread_out(configs, 1) == (configs[0],)
    assert foreign_starts.spread_out(configs, 3) == (configs[0], configs[2], configs[1])
    assert foreign_starts.spread_out(configs[:2], 4) == (configs[0], configs[1])
    assert foreign_starts.spread_out([], 4) == ()


def test_what_is_fast_on_all_devices_goes_first() -> None:
    """By the mean logarithm over each device's least; what a device does not know counts as its slowest; one device keeps its order."""
    a, b, c = ({"x": x} for x in (1, 2, 3))
    fast, slow = [(a, 1.0), (b, 1.2), (c, 9.0)], [(a, 90.0), (b, 11.0), (c, 10.0)]
    assert foreign_starts.agreed([fast, slow]) == [b, a, c]
    assert foreign_starts.agreed([fast]) == [a, b, c]
    assert foreign_starts.agreed([fast, [(c, 5.0)]]) == [a, b, c], "one device that knows one configuration prefers none"
    assert foreign_starts.agreed([[(a, 2.0), (a, 1.0), (b, 1.5)]]) == [a, b], "of two times the least counts"
    assert foreign_starts.agreed([]) == []
