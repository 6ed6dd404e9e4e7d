"""The tables and pictures of the pages say what the recorded results say, and the folder of results holds nothing else."""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Iterator
from dataclasses import asdict, replace
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from portatile.formats import other_tuners

BENCH = Path(__file__).parents[2] / "bench"
MODULES = ("measure", "split_timeline", "recorded", "pages", "results", "tables", "convergence")


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Iterator[SimpleNamespace]:
    """The modules of bench/ that make pages; they are scripts beside each other, not a package."""
    monkeypatch.syspath_prepend(BENCH)
    made = [
        f"tables.{name}" for name in ("gemm", "workloads", "convergence", "precisions", "foreign_starts", "experiments", "several_devices")
    ]
    names = ("recorded", "pages", "results", *made)
    yield SimpleNamespace(**{name.rpartition(".")[2]: import_module(name) for name in names})
    for name in [name for name in sys.modules if name.partition(".")[0] in MODULES]:
        sys.modules.pop(name)


def write(folder: Path, name: str, document: dict[str, Any]) -> None:
    (folder / f"{name}.json.gz").write_bytes(gzip.compress(json.dumps(document).encode()))


def texts(module: Any, folder: Path) -> dict[str, str]:
    return {table.name: table.text for table in module.from_results(folder)}


# ---- the pages and the folder as they are


def test_pages_say_what_is_recorded(bench: SimpleNamespace) -> None:
    stale = [path.name for path, text in bench.pages.files() if not bench.pages.same(path.read_text(), text)]
    assert stale == [], "run python3 bench/pages.py"


def test_the_steps_of_a_timeline_are_functions_of_the_package(bench: SimpleNamespace) -> None:
    with import_module("split_timeline").recorded([]):
        pass


def test_the_folder_of_results_is_in_order(bench: SimpleNamespace) -> None:
    index = bench.recorded.load_index()
    assert list(bench.results.wrong(index)) == []
    assert index["tables"] == bench.pages.uses(bench.pages.tables_and_pictures()[0]), "run python3 bench/results.py add"


@pytest.mark.parametrize(
    ("other", "same"),
    [
        ("| 512 | 1.25 |", True),
        ("| 512 |   1.25   |", True),
        ("| 512 | 1.26 |", True),  # rounded otherwise
        ("| 512 | 1.27 |", False),
        ("| 512 | 1.25 | 3 |", False),
        ("| 513 | more |", False),
    ],
)
def test_pages_are_compared_by_what_they_say(bench: SimpleNamespace, other: str, same: bool) -> None:
    assert bench.pages.same("| 512 | 1.25 |", other) is same


def test_a_page_gets_its_tables(bench: SimpleNamespace) -> None:
    tables = [bench.recorded.Table(name, f"<{name}>\n", frozenset({"f"}), name.upper()) for name in ("a-1", "a-2", "b")]
    page = "x\n<!-- table b -->\nold\n<!-- end -->\n<!-- table a-* -->\n<!-- end -->\n<!-- table c-* -->\n<!-- end -->\n"
    result = bench.pages.filled(page, tables)
    assert "old" not in result
    assert result.count("## A-") == 2
    assert "## B" not in result
    assert bench.pages.filled(result, tables) == result
    with pytest.raises(KeyError):
        bench.pages.filled("<!-- table c -->\n<!-- end -->", tables)


# ---- taking results in


@pytest.mark.parametrize("commit", [None, "unknown", "a" * 40 + " and changes", "abc1234-dirty"])
def test_a_result_of_an_unknown_tree_is_refused(bench: SimpleNamespace, tmp_path: Path, commit: str | None) -> None:
    path = tmp_path / "gemm-a.json"
    path.write_text(json.dumps({"commit": commit, "command": "bench/gemm.py"}))
    with pytest.raises(bench.recorded.ResultError, match="committed tree"):
        bench.recorded.take(path, folder=tmp_path)


def test_a_result_is_compressed_and_entered(bench: SimpleNamespace, tmp_path: Path) -> None:
    path = tmp_path / "gemm-a.json"
    device = {"name": "Fast", "platform": "P", "driver": "1"}
    path.write_text(json.dumps({"commit": "abc1234", "command": "bench/gemm.py --sizes 8", "devices": {"cuda:0": device}}))
    (tmp_path / "out").mkdir()
    name, entry = bench.recorded.take(path, folder=tmp_path / "out")
    assert (name, entry["command"], entry["commit"], entry["device"]) == ("gemm-a.json.gz", "bench/gemm.py --sizes 8", "abc1234", "Fast")
    index = {"files": {name: entry}, "tables": {"t": {"page": "p", "files": [name]}}}
    assert list(bench.results.wrong(index, tmp_path / "out")) == []
    assert bench.recorded.read(tmp_path / "out" / name)["commit"] == "abc1234"


def test_what_is_wrong_with_a_folder_is_told(bench: SimpleNamespace, tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        write(tmp_path, name, {"commit": "abc1234"})
    entry = {"sha256": bench.recorded.digest(tmp_path / "a.json.gz"), "command": "x", "commit": "abc1234", "device": "d"}
    index = {"files": {"a.json.gz": entry, "b.json.gz": {**entry, "sha256": "0"}, "gone.json.gz": entry}, "tables": {}}
    result = list(bench.results.wrong(index, tmp_path))
    assert [line for line in result if "c.json.gz: not in the index" in line]
    assert [line for line in result if "gone.json.gz: in the index, but gone" in line]
    assert [line for line in result if "b.json.gz: the hash is another" in line]
    assert [line for line in result if "a.json.gz: no table uses it" in line]


# ---- matrix products


def test_a_newer_product_takes_the_place(bench: SimpleNamespace, tmp_path: Path) -> None:
    device = {"kind": "gpu", "name": "Fast", "backend": "opencl"}
    row = {"place": "portatile opencl:1:0", "name": "tuned", "peer": "Torch 2, cuBLAS 13"}
    product = {"sizes": {"m": 8, "n": 8, "k": 8}, "trans": "NN", "dtype": "float64"}
    for name, time, ratio in (("a", "2026-02", 1.25), ("b", "2026-01", 0.5)):
        problem = {**product, "rows": [{**row, "ratio": ratio}, {**row, "place": "torch", "ratio": 1.0}]}
        run = {"time": time, "commit": name * 9, "cpu": "", "options": {}, "devices": {"opencl:1:0": device}, "problems": [problem]}
        write(tmp_path, f"gemm-{name}", run)
    result = list(bench.gemm.from_results(tmp_path))
    said = {one.name: one.text for one in result}
    assert "| 8 | 1.25 | aaaaaaa |" in said["gemm-fast"]
    assert "8, float64, OpenCL: 1.25" in said["gemm-fast.svg"]
    assert "0.50" not in "".join(said.values())
    assert result[0].files == {"gemm-a.json.gz"}


def test_shares_are_shown_where_they_were_measured(bench: SimpleNamespace, tmp_path: Path) -> None:
    """Tables whose measurements have none get no column, and rows without stay beside rows with them."""
    info = {"kind": "gpu", "name": "Fast"}
    devices = {"cuda:0": {**info, "backend": "cuda"}, "opencl:1:0": {**info, "backend": "opencl"}}
    row = {"name": "tuned", "peer": "Torch 2, cuBLAS 13", "ratio": 1.0}
    shared = [("cuda:0", 0.9312, "mma"), ("opencl:1:0", 0.887, "mma")]
    problems = [
        {"sizes": {"m": 8, "n": 8, "k": 8}, "trans": "NN", "dtype": "float64", "rows": [{**row, "place": "portatile cuda:0"}]},
        {
            "sizes": {"m": 9, "n": 9, "k": 9},
            "trans": "NN",
            "dtype": "float64",
            "rows": [{**row, "place": f"portatile {place}", "share": share, "ceiling": ceiling} for place, share, ceiling in shared],
        },
    ]
    for count, expected in ((1, "| 8 | 1.00 | aaaaaaa |\n"), (2, "| 8 | 1.00 |  |  | aaaaaaa |\n")):
        run = {"time": "2026", "commit": "a" * 9, "cpu": "", "options": {}, "devices": devices, "problems": problems[:count]}
        write(tmp_path, "gemm-a", run)
        text = texts(bench.gemm, tmp_path)["gemm-fast"]
        assert expected in text
        assert ("% of peak" in text) == (count == 2)
    assert "| 9 | 1.00 | 1.00 | 93 / 89 | aaaaaaa |" in text


def test_names_of_products(bench: SimpleNamespace) -> None:
    product = bench.gemm.Product
    assert product((("m", 8), ("n", 8), ("k", 8)), "NN").name == "8"
    assert product((("m", 8), ("n", 9), ("k", 8)), "TN").name == "8 x 9 x 8, A^T B"
    assert product((("batch", 3), ("m", 8), ("n", 8), ("k", 8)), "NN").name == "3 of 8^3"


# ---- other workloads


def row(form: str, seconds: float, device: str = "cuda:0", **more: Any) -> dict[str, Any]:
    return {"problem": "mri q 8x8 float32", "device": device, "form": form, "samples": [seconds], "work": 2.0, "unit": "Gpairs/s", **more}


def lines(bench: SimpleNamespace, rows: list[dict[str, Any]]) -> dict[str, list[str]]:
    table: dict[str, Any] = {}
    for problem, device, form, figure in bench.workloads.figures(rows, {"cuda:0": {"special": 8e9}, "opencl:0:0": {}}):
        bench.workloads.add(table, problem, device.partition(":")[0], form, figure)
    return {text[0]: text[1:] for text in bench.workloads.cells(table)}


def test_back_ends_stand_beside_each_other(bench: SimpleNamespace) -> None:
    usual = {"ceiling": "special", "share": 0.5, "config": {"P": 1}}
    rows = [row("peer", 4.0, "Torch"), row("as it comes", 2.0, **usual), row("as it comes", 4.0, "opencl:0:0", **usual)]
    (text,) = lines(bench, rows).values()
    assert text == ["2000000 / 4000000", "1 / 0.5", "Gpairs/s", "0.50 / 0.50 special", "2.00 / 1.00", "= / =", ""]


def test_shares_follow_from_the_ceilings_where_they_were_not_recorded(bench: SimpleNamespace) -> None:
    (text,) = lines(bench, [row("as it comes", 1.0, ceiling="special")]).values()
    assert text[3] == "0.50 special"  # 2e9 pairs of two functions a second, of 8e9


@pytest.mark.parametrize(
    ("rows", "sides"),
    [
        ([], ["=", ""]),
        ([row("default", 1.0, config={"P": 2})], ["2", ""]),
        ([row("default", 1.0, config={"P": 2}), row("tuned", 1.0, config={"P": 2}, searched=9)], ["2", "default 2"]),
        ([row("tuned", 0.5, config={"P": 3}, searched=9)], ["=", "4"]),
    ],
)
def test_default_and_tuned_are_told_apart(bench: SimpleNamespace, rows: list[dict[str, Any]], sides: list[str]) -> None:
    (text,) = lines(bench, [row("as it comes", 2.0, config={"P": 1}), *rows]).values()
    assert text[5:] == sides


def test_a_search_that_found_nothing_better_is_told(bench: SimpleNamespace) -> None:
    (text,) = lines(bench, [row("as it comes", 2.0, config={"P": 1}, searched=5)]).values()
    assert text[5:] == ["=", "="]


def test_other_forms_have_lines_of_their_own(bench: SimpleNamespace) -> None:
    rows = [
        row("as it comes", 2.0, config={"P": 1}),
        row("16 x 16", 4.0, config={"P": 4}),
        {"problem": "x", "device": "cuda:0", "error": "no"},
    ]
    assert list(lines(bench, rows)) == ["mri q 8x8 float32", "mri q 8x8 float32, 16 x 16"]
    assert lines(bench, rows)["mri q 8x8 float32, 16 x 16"][5:] == ["", ""]


def test_a_newer_row_takes_the_place(bench: SimpleNamespace, tmp_path: Path) -> None:
    """And with it goes what stood beside the older one."""
    device = {"id": "cuda:0", "name": "NVIDIA Fast", "driver": "1"}
    for name, time, seconds in (("a", "2026-02", 1.0), ("b", "2026-01", 4.0)):
        rows = [row("as it comes", seconds, config={"P": 1}), *([row("tuned", 3.0, config={"P": 2}, searched=3)] if name == "b" else [])]
        write(tmp_path, f"workloads-{name}", {"time": time, "commit": name * 9, "devices": [device], "rows": rows})
    table, *_ = bench.workloads.from_results(tmp_path)
    assert "| mri q 8x8 float32 | 1000000 | 2 | Gpairs/s |  |  | = |  | aaaaaaa |" in table.text
    assert (table.title, table.files) == ("NVIDIA Fast", {"workloads-a.json.gz"})


# ---- searches


def recorded(folder: Path, time: str, shares: list[list[tuple[float, float]]]) -> None:
    device = {"name": "Fast", "platform": "NVIDIA CUDA", "id": "cuda:0"}
    task = {"workload": "gemm", "dtype": "float32", "sizes": {"m": 8, "n": 8, "k": 9}, "device": "cuda:0"}
    search = {"device": device, "seconds": 12.0, "rows": [{"at": 1.5, "status": "ok"}]}
    series: dict[str, Any] = {"task": task, "runs": [search for _ in shares], "curves": shares, "known": 1.0, "again": {"flops": 1e12}}
    write(folder, f"convergence-{time}", {"time": time, "commit": "a" * 9, "budget": "9s", "series": [series]})


def test_a_newer_search_takes_the_place(bench: SimpleNamespace, tmp_path: Path) -> None:
    recorded(tmp_path, "2026-02", [[(1.5, 0.71), (9.0, 1.0)], [(2.0, 0.9)]])
    recorded(tmp_path, "2026-01", [[(1.0, 0.2)]])
    (panel,) = bench.convergence.panels(bench.convergence.newest(bench.recorded.runs("convergence", tmp_path)))
    assert panel.title == "Fast, CUDA: gemm 8 x 8 x 9 float32"
    result = texts(bench.convergence, tmp_path)
    drawn = result["convergence.svg"]
    assert "search 1: first trial after 1.5 s with 0.71 of the best, 1.00 at the end" in drawn
    assert drawn.count('class="run"') == 2
    assert ">0.7<" in drawn  # the axis reaches the lowest share
    assert (
        "| Fast, CUDA: gemm 8 x 8 x 9 float32 | 9s | 1 | 1.5 | 5 | never / never | never / never | 1.000 / 0.900 | aaaaaaa |"
        in result["convergence"]
    )


def test_precisions_are_compared_with_cublas_and_the_newest_stands(bench: SimpleNamespace, tmp_path: Path) -> None:
    said = {"commit": "1234567", "device": "NVIDIA H200", "peer": "PyTorch 2"}
    for hour, rate in ((1, 50.0), (2, 60.0)):
        rows = [
            {"name": name, "kind": "int8", "trans": "NT", "sizes": [512, 512, 512], "tflops": tflops}
            for name, tflops in (("default", rate), ("cuBLAS", 40.0), ("h 64x64", 99.0), ("OpenCL", 30.0), ("cuBLAS queued", 20.0))
        ]
        write(tmp_path, f"matrix_units-{hour}", {"bench": "matrix_units", "time": f"2026-01-01T0{hour}", **said, "rows": rows})
    timed = {"sizes": [1000, 1000, 500], "data": "normal", "mean": 0.1}
    seconds = {"default": 1e-4, "cuBLAS": 2e-4, "OpenCL": 1.25e-4}
    rows = [{"name": name, "burst": s, "sustained": 2 * s, "largest": 0.5, **timed} for name, s in seconds.items()]
    write(tmp_path, "float32_terms-1", {"bench": "float32_terms", "time": "2026-01-01", **said, "rows": rows})
    rows = [{"name": name, "dtype": "float64", "burst": 9.0, "sustained": 6.0, "largest": 0.5, **timed} for name in ("residues", "cuBLAS")]
    write(tmp_path, "residues-1", {"bench": "residues", "time": "2026-01-01", **said, "rows": rows})
    units, emulated = texts(bench.precisions, tmp_path).values()
    assert "| int8 | 512 | NT | 60 | 40 | 1.50 | 30 | 0.75 | 1.50 | 1234567 |" in units
    assert "99" not in units
    shape = "1000 x 1000 x 500 | normal"
    assert (
        f"| float32 | {shape} | 10.0 (5.0) |  | 5.0 (2.5) | 2.00 (2.00) | 8.0 (4.0) | 1.60 (1.60) | 0.50 |  | 0.50 | 0.50 | 1234567 |"
        in emulated
    )
    assert f"| float64, residues | {shape} | 9.0 (6.0) |  | 9.0 (6.0) | 1.00 (1.00) |  |  | 1.00 |  | 1.00 |  | 1234567 |" in emulated


def test_trials_that_suggestions_save(bench: SimpleNamespace, tmp_path: Path) -> None:
    """Means; a search that does not get there counts with one trial more than it has. The newest run stands."""
    one = {"recording": "a_b-X_1", "known": ["a_b-Y"], "configurations": 90, "shares": [0.5, 0.98]}
    one |= {"without": {"to_95": [10, None]}, "with": {"to_95": [3, 4]}}
    rows = [one, {**one, "known": ["c-Y"], "with": {"to_95": [12, None]}}, {**one, "known": ["a_b-Y", "c-Y"], "with": {"to_95": [1, 1]}}]
    for hour, listed in ((1, []), (2, rows)):
        said = {"bench": "foreign_starts", "time": f"2026-01-01T0{hour}", "commit": "1234567", "device": "none", "budget": 19}
        write(tmp_path, f"foreign_starts-{hour}", {**said, "rows": listed})
    (text,) = texts(bench.foreign_starts, tmp_path).values()
    assert "| a b, X 1, 90 | 15.0 | +11.5 | -1.0 | +14.0 | 0.50, 0.98 |" in text
    assert "| mean | 15.0 | +11.5 | -1.0 | +14.0 |  |" in text
    assert "Means of 2 searches of 19 trials; commit 1234567." in text


def _gap(seconds: float, ended: str) -> dict[str, Any]:
    shares = {"all orders": {"cuda:0: compiler": 1.0}, "until equal": {"a over b: unrolling": 0.9, "a over b: what then remains": 0.1}}
    sides = {"cuda:0": {"none": 1.0, "all": 2e-3}, "opencl:0:0": {"none": 1.0, "all": 1e-3}}
    row = {"ids": "D3.2", "words": "study gap matmul", "command": "portatile study gap matmul --between cuda:0 opencl:0:0"}
    row |= {"seconds": seconds, "figures": 1, "rows": 3, "code": 0, "ended": ended, "error": "", "prints": ""}
    return {**row, "notes": "what remains, 10 %, is nothing", "gap": {"sides": sides, **shares, "code or driver": {}}}


def test_experiments_stand_with_a_complete_run_of_each_kind_of_device(bench: SimpleNamespace, tmp_path: Path) -> None:
    """A newer run that was cut off takes no complete one's place, on whichever GPU; a difference is told once, with what explains it."""
    runs = ((1, "NVIDIA H100", "gpu", 20.0, ""), (2, "NVIDIA H200", "gpu", 9.0, "out of time"), (3, "pthread-AMD EPYC", "cpu", 5.0, "late"))
    for hour, name, kind, seconds, ended in runs:
        info = replace(other_tuners.device(name), backend="cuda", kind=kind)
        devices = [asdict(replace(info, id=device)) for device in ("cuda:0", "opencl:0:0")]
        said = {"bench": "experiments", "time": f"2026-01-01T0{hour}", "commit": "1234567", "devices": devices}
        write(tmp_path, f"experiments-{hour}", {**said, "rows": [_gap(seconds, ended)]})
    told = texts(bench.experiments, tmp_path)
    assert "| 20: H100 CUDA | 5*: EPYC CUDA |" in told["experiments"]
    assert told["gaps"].count("| matmul |") == 1
    assert "| matmul | H100 | CUDA 2 ms, CUDA 1 ms: 2 |  | unrolling 90% | 10 %: nothing |" in told["gaps"]
    assert told["speed-ups"].count("| compiler 100% |") == 3


# ---- several devices


def test_halves_are_compared_with_what_a_half_takes_alone(bench: SimpleNamespace, tmp_path: Path) -> None:
    """The slower GPU of both counts, and the newest run on a host; one whose time ran out before has no row."""

    def way(on: str, *seconds: float) -> dict[str, Any]:
        return {"on": on.split(), "place": "device", "part": 1.0, "seconds": list(seconds), "split": ""}

    ways = {
        "device, cuda:0 alone": way("cuda:0", 2e-3, 1.9e-3, 2.1e-3),
        "device, cuda:1 alone": way("cuda:1", 2.2e-3, 2.2e-3, 2.2e-3),
        "device, halves": way("cuda:0 cuda:1", 1.1e-3, 1.1e-3, 9e-3),
        "device, a part on cuda:0": way("cuda:0", 9e-4, 9e-4, 9e-4),
        "device, a part on cuda:1": way("cuda:1", 1e-3, 1e-3, 1e-3),
    }
    ended = {name: one for name, one in ways.items() if name != "device, halves"}
    devices = [{"id": name, "name": "Fast"} for name in ("cuda:0", "cuda:1")]
    lists = {"copies": [], "links": [], "tuning": []}
    for name, time, cases in (("a", "2026-02", {"filter": ways, "sums": ended}), ("b", "2026-01", {"filter": ended})):
        rows = [{"case": case, "ways": each} for case, each in cases.items()]
        run = {"time": time, "commit": name * 9, "cores": 32, "devices": devices, "cases": rows, **lists}
        write(tmp_path, f"several_devices-{name}", run)
    *_, row = texts(bench.several_devices, tmp_path)["several-devices-halves"].splitlines()
    assert row == "| filter, 2 x Fast; 32 cores | 2 | 1 | 1.1 | 2.00 | 1.82 | 100 | aaaaaaa |"
