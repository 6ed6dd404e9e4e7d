"""Files of others: sizes, depth, time and numbers are bounded, one line says what is wrong where, and nothing reaches the terminal."""

from __future__ import annotations

import gzip
import io
import json
import os
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from portatile.cli import _console
from portatile.cli._shown import shown
from portatile.errors import ArgumentError, UsageError
from portatile.formats import bounded_reading, t1
from portatile.kernel import Kernel
from portatile.records import to_json
from portatile.shipping import import_results
from portatile.studies.framework import table
from portatile.tuning.search import replay
from support.devices import CPU as DEVICE
from support.trials import trial

TEXT = "kernel void k(global float *x, int n) { x[get_global_id(0)] += n; }"


def described(folder: Path, values: str = "[1, 2, 4]", rule: str = "b < 8", size: Any = 64, **kernel: object) -> Path:
    """A T1 file."""
    (folder / "k.cl").write_text(TEXT)
    document = {
        "ConfigurationSpace": {
            "TuningParameters": [{"Name": "b", "Type": "int", "Values": values}],
            "Conditions": [{"Expression": rule, "Parameters": ["b"]}],
        },
        "KernelSpecification": {
            "Language": "OpenCL",
            "KernelName": "k",
            "KernelFile": "k.cl",
            "LocalSize": {"X": "b"},
            "GlobalSize": {"X": "ceil(64 / b) * len([b]) * b"},
            "Arguments": [
                {"Name": "x", "Type": "float", "MemoryType": "Vector", "AccessType": "ReadWrite", "Size": size, "FillValue": 1.0},
                {"Name": "n", "Type": "int32", "MemoryType": "Scalar", "FillValue": 3},
            ],
            **kernel,
        },
    }
    path = folder / "t1.json"
    path.write_text(json.dumps(document))
    return path


@pytest.mark.parametrize("rule", ["ceil(b / 2) <= 2", "floor(b / 2) == b / 2", "b in list(range(3))", "sum([b, b]) < max(4, len([1]))"])
def test_every_function_that_the_message_offers_is_taken(tmp_path: Path, rule: str) -> None:
    kernel = Kernel.from_t1(t1.read(described(tmp_path, rule=rule)))
    assert [one["b"] for one in kernel.space(kernel.problem(), DEVICE)] == [
        b for b in (1, 2, 4) if eval(rule, {**vars(__import__("math"))}, {"b": b})
    ]


@pytest.mark.parametrize(
    ("where", "text"),
    [
        *(
            ("values", text)
            for text in ("9**9**9**9", "[9**9**9]", "[0]*10**9", "[x for x in range(10**9)]", "[1 << 10**9]", "('a' * 10**10,)")
        ),
        *(("values", text) for text in ("['%1000000000d' % 5]", "[" * 900 + "]" * 900, "-" * 3900 + "1", "[1" + ", 1" * 5000 + "]", "\0")),
        *(("rule", text) for text in ("b ** 9 ** 9 > 1", "sum(range(10**9)) > b", "len([0] * 10**9) > b")),
        ("size", "9**9**9"),
        ("size", 10**15),
    ],
)
def test_what_calculates_too_much_is_refused_at_once(tmp_path: Path, where: str, text: str) -> None:
    started = time.monotonic()
    with pytest.raises(ArgumentError) as raised:
        t1.read(described(tmp_path, **{where: text}))  # type: ignore[arg-type]
    assert "\n" not in str(raised.value)
    assert {"values": "Values", "rule": "Conditions", "size": "Size"}[where] in str(raised.value)
    assert time.monotonic() - started < 20


def test_pipes_do_not_hang(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_reading, "PATIENCE", 0.2)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for read in (t1.read, import_results.read, replay.recordings):
        with pytest.raises(ArgumentError, match="nothing came"):
            read(pipe)
    for name in ("KernelFile", "DataSource"):
        file = described(tmp_path, KernelFile="pipe")
        if name == "DataSource":
            file = described(tmp_path)
            document = json.loads(file.read_text())
            document["KernelSpecification"]["Arguments"][0] |= {"FillType": "BinaryRaw", "DataSource": "pipe"}
            file.write_text(json.dumps(document))
        with pytest.raises(ArgumentError, match="not a regular file"):
            t1.read(file)
    monkeypatch.setattr(bounded_reading, "PATIENCE", 20.0)
    writer = threading.Thread(target=lambda: pipe.write_bytes(to_json([trial(1)])))
    writer.start()
    assert import_results.read(pipe)[0].config == trial(1).config
    writer.join()


def test_packed_files_unpack_to_no_more_than_they_may(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "results.json.gz"
    path.write_bytes(gzip.compress(to_json([trial(1)])) + gzip.compress(b" \n"))
    assert len(import_results.read(path)) == 1
    path.write_bytes(path.read_bytes()[:40])
    with pytest.raises(ArgumentError, match="too early"):
        import_results.read(path)
    path.write_bytes(gzip.compress(b" " * 2**22))
    with pytest.raises(ArgumentError, match="larger than 2 MiB when it is unpacked"):
        bounded_reading.content(path, 2**21)
    with pytest.raises(ArgumentError, match="larger than 0 MiB"):
        bounded_reading.content(path, 16)


@pytest.mark.parametrize(
    "text", ["[" * 100_000, '{"a":' * 100_000, "[1" + "0" * 5000 + "]", "[18446744073709551616]", r'["\ud800"]', "[1e999]", "", "\xff"]
)
def test_deep_and_huge_documents_end_in_one_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "results.json"
    path.write_bytes(text.encode("latin-1"))
    for read in (t1.read, import_results.read, replay.recordings):
        with pytest.raises(UsageError) as raised:
            read(path)
        assert str(path) in str(raised.value)
        assert "\n" not in str(raised.value)


def test_escape_sequences_are_spelled_out(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "chip\x1b]0;owned\x07\x1b[2J\r\x9b31m"
    assert shown(name).isprintable()
    assert shown("two\nlines\té") == "two\nlines\té"
    for width in (200, 12):
        written = io.StringIO()
        console = type(_console.out)(file=written, width=width)
        assert isinstance(console, Console)
        console.print(_console.table(name, ["name", "rate"], [[name, "1"]]))
        console.print(name, markup=False)
        assert "chip" in written.getvalue()
        assert not any(mark in written.getvalue() for mark in "\x1b\x07\r\x9b")


def test_cells_are_no_formulas() -> None:
    rows = [replace(trial(1), message=text) for text in ('=HYPERLINK("http://x")', "+1", "-1", "@a", "plain")]
    lines = table.to_csv(type(rows[0]), rows)
    assert "'=HYPERLINK" in lines
    assert [table.cell(value) for value in ("+1", "-1", "@a", "plain", -1.5, None)] == ["'+1", "'-1", "'@a", "plain", -1.5, ""]
