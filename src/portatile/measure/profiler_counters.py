"""Hardware counters of an NVIDIA GPU, through Nsight Compute (``ncu``): of every kernel of one run, in a separate process.

``python -m portatile.measure.profiler_counters`` is that process: it reads a CountedRun from standard input and runs it once. The profiler
replays each kernel as often as its counters require, so times measured under it are meaningless.
"""

from __future__ import annotations

import csv
import io
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from portatile import device, processes
from portatile.errors import DeviceError, PortatileError
from portatile.measure import runs
from portatile.measure.processor_counters import Count
from portatile.records import Config, Problem, from_json, to_json

OF_PEAK = "of peak: "  # prefix of values that are a fraction of the peak
METRICS: Mapping[str, str] = {
    "sm__throughput.avg.pct_of_peak_sustained_elapsed": f"{OF_PEAK}arithmetic",
    "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed": f"{OF_PEAK}memory",
    "sm__warps_active.avg.pct_of_peak_sustained_active": "warps that are resident",
    "l1tex__t_sector_hit_rate.pct": "L1 hits",
    "lts__t_sector_hit_rate.pct": "L2 hits",
    "dram__bytes_read.sum": "read from memory",
    "dram__bytes_write.sum": "written to memory",
    "smsp__inst_executed.sum": "instructions of warps",
    "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum": "float32 multiply-adds",
    "smsp__sass_thread_inst_executed_op_dfma_pred_on.sum": "float64 multiply-adds",
    "smsp__inst_executed_pipe_tensor.sum": "matrix instructions",
    "smsp__inst_executed_op_global_ld.sum": "loads from global memory",
    "smsp__inst_executed_op_shared_ld.sum": "loads from local memory",
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum": "bank conflicts",
    "smsp__inst_executed_op_local_ld.sum": "loads of spilled registers",
}
_FOLDERS = ("/usr/local/cuda/bin", "/opt/nvidia/nsight-compute")
_SECONDS = 300


@dataclass(frozen=True)
class CountedRun:
    """A configuration of a problem on a device, given by its id."""

    problem: Problem
    device: str
    config: Config


@dataclass(frozen=True)
class KernelCount:
    """The value of one counter over one launch, number ``place`` of the run."""

    place: int
    kernel: str
    count: Count


def counted(run: CountedRun) -> list[KernelCount]:
    """The counters of one run; raises DeviceError with the reason if there are none."""
    tool = profiler()
    if tool is None:
        raise DeviceError("ncu is not installed; it comes with NVIDIA's CUDA toolkit as Nsight Compute")
    with tempfile.TemporaryDirectory(prefix="portatile-") as folder:
        log = Path(folder) / "ncu.csv"
        command = [tool, "--csv", "--page", "raw", "--print-units", "base", "--metrics", ",".join(METRICS), "--log-file", str(log)]
        command += [sys.executable, "-m", __name__]
        try:
            done = subprocess.run(
                command, input=to_json(run), capture_output=True, env=processes.environment(), timeout=_SECONDS, check=False
            )
        except subprocess.TimeoutExpired:
            raise DeviceError(f"ncu did not end within {_SECONDS} s") from None
        output = log.read_text(errors="replace") if log.is_file() else ""
    if "ERR_NVGPUCTRPERM" in output:
        raise DeviceError(
            "the driver allows only administrators to read counters: https://developer.nvidia.com/ERR_NVGPUCTRPERM says how to change that"
        )
    counts = list(parsed(output))
    if not counts:
        error = next((line.strip("= \n") for line in output.splitlines() if "==ERROR==" in line), "")
        child = done.stderr.decode(errors="replace").strip().splitlines()
        raise DeviceError(f"ncu counted nothing: {error or (child[-1] if child else 'it saw no kernel')}")
    return counts


def profiler() -> str | None:
    """The path of ncu: on PATH, or in NVIDIA's packages."""
    places = [str(path) for folder in _FOLDERS for path in sorted(Path(folder).glob("*/"), reverse=True)]
    return shutil.which("ncu") or next((program for place in (*_FOLDERS, *places) if (program := shutil.which("ncu", path=place))), None)


def parsed(text: str) -> Iterator[KernelCount]:
    """The table of ``--page raw --csv``: a line for each launch, a column for each counter, units in the second line."""
    lines = [line for line in text.splitlines() if line.startswith('"')]
    table = list(csv.reader(io.StringIO("\n".join(lines))))
    if len(table) < 3 or "Kernel Name" not in table[0]:
        return
    heads, units = table[0], table[1]
    for place, line in enumerate(table[2:]):
        named = dict(zip(heads, line, strict=False))
        for head, unit in zip(heads, units, strict=False):
            if head in METRICS and (value := _number(named.get(head, ""))) is not None:
                yield KernelCount(place, named["Kernel Name"].partition("(")[0], Count(METRICS[head], value, unit))


def _number(text: str) -> float | None:
    """A number as ncu prints it, with commas between thousands; None for n/a."""
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return None


def main() -> None:
    """The child: uploads the operands and runs once."""
    run = from_json(sys.stdin.buffer.read(), CountedRun)
    try:
        opened = device.get(run.device)
        with runs.prepared(opened, run.problem) as ready, runs.loaded(opened, run.problem, run.config) as executable:
            executable.run(ready.queue, ready.memory, ready.inputs.scalars)
            ready.queue.finish()
    except PortatileError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
