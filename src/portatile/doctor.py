"""The examination of an installation: what is present, missing or broken, and whether a kernel runs on each device.

Devices are examined in child processes, ``python -m portatile.doctor survey`` and ``python -m portatile.doctor test ID``, which print JSON.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import msgspec
import numpy as np

from portatile import device, open_files, processes, program, repair, settings
from portatile.device.backend import Finding
from portatile.device.base import Argument
from portatile.errors import DeviceNotFoundError, PortatileError, StoreError, UsageError
from portatile.records import DeviceInfo, Source, from_json, to_json
from portatile.store import ResultStore

TEST_SECONDS = 120.0
_ITEMS, _GROUP = 1000, 64
_TEXT = """
__kernel void axpy(__global const float *x, __global float *y, const float a, const int n, __local float *part)
{
    const int i = get_global_id(0), l = get_local_id(0);
    part[l] = i < n ? x[i] : 0.0f;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (i < n)
        y[i] += a * part[l];
}
"""

R = TypeVar("R")


@dataclass(frozen=True)
class SelfTest:
    """The outcome of one kernel on a device: its failure (empty if none), and the seconds of each phase."""

    message: str = ""
    seconds: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class SurveyFindings:
    """The findings of the back ends, made in a child process."""

    devices: tuple[DeviceInfo, ...] = ()
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True)
class Examination:
    """The whole report; ``tests`` by device id."""

    devices: tuple[DeviceInfo, ...]
    findings: tuple[Finding, ...]
    tests: Mapping[str, SelfTest]

    @property
    def healthy(self) -> bool:
        """Whether nothing is broken and every device ran its kernel."""
        return not any(f.level == "broken" for f in self.findings) and not any(test.message for test in self.tests.values())


def examine(seconds: float = TEST_SECONDS) -> Examination:
    """Examine everything; each child may take ``seconds``."""
    variables = tuple(Finding("broken", "variables", mistake, "set it right, or unset it") for mistake in settings.mistakes())
    try:
        settings.load()
    except UsageError:  # which nothing goes on without
        return Examination((), variables, {})
    try:
        open_files.check()
    except UsageError as error:  # devices cannot be queried
        return Examination((), (Finding("broken", "open files", str(error)), *_folders()), {})
    answer = _child(("survey",), seconds, SurveyFindings)
    if isinstance(answer, str):
        remedy = "remove OpenCL libraries one at a time (their .icd files, or OCL_ICD_VENDORS) to find the one that fails"
        result = SurveyFindings(findings=(Finding("broken", "discovery", answer, remedy),))
    else:
        result = answer
        if not result.devices:
            lacking = Finding("broken", "devices", "no device is usable", _no_device(result.findings))
            result = SurveyFindings((), (*result.findings, lacking))
    tests = {info.id: _tested(info.id, seconds) for info in result.devices}
    return Examination(result.devices, (*variables, *result.findings, *_folders()), tests)


def _no_device(findings: Sequence[Finding]) -> str:
    if any(finding.level == "broken" for finding in findings):
        return "fix what is broken above"
    return "pip install pocl-binary-distribution gives the CPU as one"


def _tested(identity: str, seconds: float) -> SelfTest:
    answer = _child(("test", identity), seconds, SelfTest)
    return SelfTest(answer) if isinstance(answer, str) else answer


def _child(arguments: Sequence[str], seconds: float, kind: type[R]) -> R | str:
    """A child's answer, or how it failed."""
    try:
        done = processes.finished([sys.executable, "-m", "portatile.doctor", *arguments], seconds)
    except subprocess.TimeoutExpired:
        return f"gave no answer within {seconds:g} s"
    last = done.stderr.strip().splitlines()[-1:] or [""]
    if done.returncode < 0:
        return f"ended by {signal.Signals(-done.returncode).name}: {last[0]}".rstrip(": ")
    try:
        return from_json(done.stdout.strip().splitlines()[-1] if done.stdout.strip() else "", kind)
    except msgspec.DecodeError:
        return f"ended with code {done.returncode}: {last[0]}".rstrip(": ")


def _folders() -> list[Finding]:
    """Whether the cache and the result store can be written, and the store be read."""
    chosen = settings.load()
    findings = [_writable("cache folder", chosen.cache_dir, "PORTATILE_CACHE_DIR")]
    findings.append(_writable("store folder", chosen.data_dir, "PORTATILE_DATA_DIR"))
    if chosen.store_path is None:
        findings.append(_server())
    elif _there(chosen.store_path):
        findings.append(_store(chosen.store_path))
    return findings


def _server() -> Finding:
    """Whether the server that holds the results answers."""
    try:
        with ResultStore.reader() as store:
            return Finding("ok", "result store", store.place)
    except PortatileError as error:
        return Finding("broken", "result store", str(error), "set PORTATILE_STORE to a server that answers, or to a file")


def _store(path: Path) -> Finding:
    try:
        damage = repair.examine(path)
    except StoreError as error:
        return Finding(
            "broken", "result store", f"{path}: {error}", f"upgrade portatile, or move {path} away, or set PORTATILE_STORE to another file"
        )
    if damage:
        if "unable to open" in damage.file:  # SQLite cannot create a file beside it
            return Finding("broken", "result store", f"{path}: {damage}", "set PORTATILE_DATA_DIR to a writable folder")
        return Finding("broken", "result store", f"{path}: {damage}", "portatile doctor --repair keeps everything that can be read")
    return Finding("ok", "result store", str(path))


def _writable(subject: str, folder: Path, variable: str) -> Finding:
    """Whether files can be created in ``folder``, or in the nearest existing folder above it."""
    place = next(path for path in (folder, *folder.absolute().parents) if _there(path))
    try:
        with tempfile.TemporaryFile(dir=place):
            pass  # tests writing before free space: a nearly full disk accepts an empty file, and a read-only one is reported as such
    except OSError as error:
        return Finding("broken", subject, f"{folder} cannot be written: {error.strerror}", f"set {variable} to a writable folder")
    if settings.full(place):
        return Finding(
            "broken", subject, f"the disk of {folder} is full", f"set {variable} to a folder on another disk, or free some space"
        )
    return Finding("ok", subject, str(folder) if place == folder else f"{folder} will be made")


def _there(path: Path) -> bool:
    """Whether a file or folder exists, as far as this user may see."""
    try:
        return path.exists()
    except OSError:
        return False


def self_test(identity: str) -> SelfTest:
    """Compile, launch and check one kernel in this process; ``message`` says what failed."""
    marks = {"start": time.perf_counter()}
    try:
        opened = device.get(identity)
        binary = program.build(Source("selftest.cl", _TEXT), opened.target, None)
        marks["compile"] = time.perf_counter()
        rng = np.random.default_rng(1)
        x, y = rng.standard_normal((2, _ITEMS), dtype=np.float32)
        computed = np.full_like(y, np.nan)
        with (
            opened,
            opened.load(binary) as module,
            opened.allocate(x.nbytes) as on_x,
            opened.allocate(y.nbytes) as on_y,
            opened.queue() as queue,
        ):
            queue.upload(on_x, x)
            queue.upload(on_y, y)
            size = -(-_ITEMS // _GROUP) * _GROUP
            args: list[Argument] = [on_x, on_y, np.float32(3), np.int32(_ITEMS), 4 * _GROUP]
            queue.launch(module.kernel("axpy"), (size, 1, 1), (_GROUP, 1, 1), args)
            queue.download(computed, on_y)
        marks["run"] = time.perf_counter()
    except PortatileError as error:
        return SelfTest(f"{type(error).__name__}: {error}")
    wrong = int(np.count_nonzero(~(np.abs(computed - (y + 3 * x)) < 1e-5)))
    seconds = {"compile": marks["compile"] - marks["start"], "run": marks["run"] - marks["compile"]}
    return SelfTest(f"{wrong} of {_ITEMS} results are wrong" if wrong else "", seconds)


def _selection() -> list[Finding]:
    """Whether the device that the environment selects exists."""
    try:
        device.get()
    except DeviceNotFoundError as error:
        return [Finding("broken", "default device", str(error), "correct or unset PORTATILE_DEVICE and PYOPENCL_CTX")]
    return []


def _main(arguments: Sequence[str]) -> int:
    match arguments:
        case ["survey"]:
            infos = tuple(found_device.info for found_device in device.devices())
            answer: SurveyFindings | SelfTest = SurveyFindings(infos, (*device.findings(), *(_selection() if infos else ())))
        case ["test", identity]:
            answer = self_test(identity)
        case _:
            print("usage: python -m portatile.doctor survey | test ID", file=sys.stderr)
            return 2
    print(to_json(answer).decode())
    return 0


if __name__ == "__main__":
    processes.end_with_parent()  # a hanging driver would otherwise outlive the parent
    sys.exit(_main(sys.argv[1:]))
