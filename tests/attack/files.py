"""Files of others damaged at random: each is read, or refused in one line, soon and in little memory."""

from __future__ import annotations

import copy
import json
import random
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from attack import AttackError, Place
from portatile.errors import PortatileError
from portatile.formats import t1, t4
from portatile.kernel import Kernel
from portatile.records import to_json
from portatile.shipping import import_results
from portatile.store import ResultStore
from portatile.tuning.search import replay
from support.trials import trial

_PATIENCE = 20.0
_KERNEL_TUNER = {
    "device_name": "A",
    "kernel_name": "k",
    "problem_size": [1, 2],
    "tune_params_keys": ["b"],
    "cache": {"1": {"b": 1, "time": 2.0, "times": [2.0], "compile_time": 1.0}, "2": {"b": 2, "time": "InvalidConfig"}},
}
_T1 = {
    "ConfigurationSpace": {
        "TuningParameters": [{"Name": "b", "Type": "int", "Values": "[1, 2, 4]", "Default": 1}],
        "Conditions": [{"Expression": "b < 8 and ceil(b / 2) in list(range(9)) and floor(b) == b", "Parameters": ["b"]}],
    },
    "KernelSpecification": {
        "Language": "OpenCL",
        "KernelName": "k",
        "KernelFile": "k.cl",
        "LocalSize": {"X": "b"},
        "GlobalSize": {"X": "1024"},
        "ProblemSize": [1024],
        "GridDivX": ["b"],
        "Arguments": [
            {
                "Name": "x",
                "Type": "float",
                "MemoryType": "Vector",
                "AccessType": "ReadWrite",
                "Size": 64,
                "FillType": "Random",
                "FillValue": 1.0,
            },
            {"Name": "n", "Type": "int32", "MemoryType": "Scalar", "FillValue": 3},
        ],
        "ReferenceArguments": [{"TargetName": "x", "FillType": "Constant", "FillValue": 0}],
    },
    "Budget": [{"Type": "TuningDuration", "BudgetValue": 3}],
}
_EVIL: tuple[Any, ...] = (
    *(None, True, -1, 0, 1.5, 1e308, 1e999, float("nan"), 2**63, 2**64, -(2**63), 10**400, "", "x" * 5000, "\0", "é\ud800", [], {}),
    *("9**9**9**9", "[9**9**9]", "[0]*10**9", "(((1", "-" * 3000 + "1", "[[[]]]", "[x for x in range(10**9)]", "'%1000000000d' % 5"),
    *(
        "1 << 10**9",
        "lambda: 0",
        "__import__('os')",
        "b.real",
        "()",
        "ceil(1.5)",
        "\x1b[31mred\x1b]0;t\x07",
        [[]],
        {"a": {"b": {}}},
        [None] * 3,
    ),
)


def attempt(rng: random.Random, place: Place) -> str:
    """Change a few fields or bytes of a sound file, and read it as its command would."""
    name = rng.choice(list(_READERS))
    document, read = _READERS[name]
    path = place.folder / "file.json"
    (place.folder / "k.cl").write_text("kernel void k(global float *x, int n) { x[get_global_id(0)] += n; }")
    path.write_bytes(_text(rng, _changed(rng, document())))
    started, outcome = time.monotonic(), "read"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            read(path)
    except PortatileError as error:
        if not str(error).isprintable():
            raise AttackError(f"{name}: the message has control characters: {str(error)!r}") from None
        outcome = "refused"
    if time.monotonic() - started > _PATIENCE:
        raise AttackError(f"{name}: took {time.monotonic() - started:.0f} s")
    return f"{name} {outcome}"


def _imported(path: Path) -> None:
    with ResultStore(None) as store:
        import_results.add(store, import_results.read(path), [])
        store.leaders()


def _replayed(path: Path) -> None:
    for recording in replay.recordings(path):
        recording.space().count()


def _kernel(path: Path) -> None:
    Kernel.from_t1(t1.read(path)).problem()


def _trials() -> Any:
    return json.loads(to_json([trial(1), trial(2)]))


def _t4() -> Any:
    return json.loads(t4.write([trial(1), trial(2)]))


_READERS: dict[str, tuple[Callable[[], Any], Callable[[Path], None]]] = {
    "import": (_trials, _imported),
    "import T4": (_t4, _imported),
    "replay": (_trials, _replayed),
    "replay T4": (_t4, _replayed),
    "replay Kernel Tuner": (lambda: _KERNEL_TUNER, _replayed),
    "T1": (lambda: _T1, _kernel),
}


def _places(document: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if 0 < len(path) < 40:
        yield path
    if isinstance(document, dict | list) and len(path) < 40:
        for key in document if isinstance(document, dict) else range(len(document)):
            yield from _places(document[key], (*path, key))


def _changed(rng: random.Random, document: Any) -> Any:
    document = copy.deepcopy(document)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        if not (places := list(_places(document))):
            break
        *way, last = rng.choice(places)
        record = document
        for step in way:
            record = record[step]
        match rng.randrange(6):
            case 0:
                del record[last]
            case 1:
                for _ in range(rng.choice((1, 50, 300))):
                    record[last] = [record[last]]
            case _:
                record[last] = copy.deepcopy(rng.choice(_EVIL))
    return document


def _text(rng: random.Random, document: Any) -> bytes:
    data = bytearray(json.dumps(document).encode())
    if rng.random() < 0.2:
        for _ in range(rng.randrange(1, 8)):
            data[rng.randrange(len(data))] = rng.randrange(256)
    return bytes(data[: rng.randrange(len(data) + 1)] if rng.random() < 0.05 else data)
