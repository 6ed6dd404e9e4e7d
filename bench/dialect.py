"""Which constructs of OpenCL C and which programs give right results on which device, and which resources their CUDA translation needs.

The battery and the corpus of the tests, every case in a child process, because drivers crash: on every OpenCL device and every GPU
through CUDA. CUDA compiles without a GPU. Of the corpus' CUDA form: registers, spills, wide and generic accesses, and beside them the
registers that Clang needs, where there is a Clang for NVPTX with libclc.

    python3 bench/dialect.py [--jobs 16] [--device opencl:0:0 ...] [--only REGEX] [--arch sm_90] [--libclc FILE.bc]
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from measure import HERE, Child, ChildError, facts, parser, print_table, save, serve, slug

sys.path.insert(0, str(HERE.parent / "tests"))
from portatile import device as devices
from portatile import program
from portatile.device import ptxas
from portatile.device.cuda.compiler import CudaTarget
from portatile.device.ptx import functions
from portatile.errors import CompileError, PortatileError
from portatile.records import Resources
from support.battery import CASES, GROUPS
from support.battery.run import obstacle
from support.battery.run import run as run_case
from support.corpus import SAMPLES, compare
from support.corpus import run as run_sample
from support.corpus.references import REFERENCES

COMPILES = "CUDA compiles"
_CLANGS = ("clang", "clang-19", "clang-17", "clang-16", "clang-15", "clang-14")
_LIBCLC = ("/usr/lib/clc/nvptx64--nvidiacl.bc", "/usr/share/clc/nvptx64--nvidiacl.bc")
_MEMORY = r"(?:global|shared|const|local|generic)(?:\.nc)?"
_STATIC = {
    "loads": rf"ld\.{_MEMORY}(?:\.v[248])?",
    "wide loads": rf"ld\.{_MEMORY}\.v[248]",
    "stores": rf"st\.{_MEMORY}(?:\.v[248])?",
    "wide stores": rf"st\.{_MEMORY}\.v[248]",
    "generic": r"\w+\.generic.*",
}


@dataclass(frozen=True)
class Task:
    """One question to a child: ``column`` is a device's id or ``COMPILES``."""

    kind: str
    name: str
    column: str


# In the children


def compiles(name: str, kind: str, arch: str) -> dict[str, Any]:
    """Whether the CUDA form builds, and the resources and instructions of a program's kernel."""
    case = CASES[name] if kind == "construct" else None
    source = case.source if case else SAMPLES[name].source
    try:
        binary = program.build(source, CudaTarget(arch), None)
    except CompileError as error:
        return {"status": "does not build", "detail": str(error)[:500]}
    if case:
        return {"status": "ok"}
    sample = SAMPLES[name]
    text = program.build(source, CudaTarget(arch, "ptx"), None).data.decode().rstrip("\0")
    counts = functions(text)[sample.entry.symbol]
    used = binary.resources.get(sample.kernel) or assembled(text, arch).get(sample.entry.symbol, Resources())
    found = {what: sum(n for kind, n in counts.kinds.items() if re.fullmatch(pattern, kind)) for what, pattern in _STATIC.items()}
    return {"status": "ok", "static": {"registers": used.registers, "spills": used.spill_stores + used.spill_loads, **found}}


def construct(name: str, device: str) -> dict[str, Any]:
    """Whether a case of the battery gives NumPy's result."""
    opened = devices.get(device)
    if reason := obstacle(CASES[name], opened):
        return {"status": "not asked", "detail": reason}
    try:
        run_case(CASES[name], opened)
    except AssertionError as error:
        return {"status": "wrong", "detail": str(error)[:500]}
    except PortatileError as error:
        return {"status": "fails", "detail": str(error)[:500]}
    return {"status": "ok"}


def corpus_program(name: str, device: str, folder: str) -> dict[str, Any]:
    """Run a program of the corpus; its arrays go to a file."""
    sample, opened = SAMPLES[name], devices.get(device)
    try:
        arrays = run_sample(opened, sample, program.build(sample.source, opened.target, None))
    except PortatileError as error:
        return {"status": "fails", "detail": str(error)[:500]}
    np.savez(Path(folder) / f"{name}@{device.replace(':', '_')}.npz", **arrays)  # type: ignore[arg-type]
    return {"status": "ran"}


def clang(name: str, compiler: str, library: str, arch: str) -> dict[str, Any]:
    """The registers that Clang's PTX of a program takes, assembled for the same architecture."""
    sample = SAMPLES[name]
    with tempfile.TemporaryDirectory() as folder:
        text, ptx = Path(folder) / f"{name}.cl", Path(folder) / "a.ptx"
        text.write_text(sample.source.text)
        flags = ["-cl-std=CL1.2", "-Xclang", "-finclude-default-header", "-target", "nvptx64-nvidia-nvcl", "-O3", "-S", "-w"]
        flags += ["-Xclang", "-target-cpu", "-Xclang", "sm_80", "-Xclang", "-mlink-builtin-bitcode", "-Xclang", library]
        built = subprocess.run([compiler, "-x", "cl", *flags, "-o", str(ptx), str(text)], capture_output=True, text=True, check=False)
        if built.returncode:
            return {"detail": built.stderr[-300:]}
        found = assembled(ptx.read_text(), arch).get(sample.kernel)
        return {"registers": found.registers, "spills": found.spill_stores + found.spill_loads} if found else {"detail": "no such kernel"}


def assembled(text: str, arch: str) -> dict[str, Resources]:
    """What ptxas says of a PTX text's kernels; NVRTC says it too, the newer ones."""
    packaged = map(str, Path(np.__file__).parents[1].glob("nvidia/*/bin/ptxas"))
    found = next(packaged, None) or shutil.which("ptxas") or "/usr/local/cuda/bin/ptxas"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.ptx"
        path.write_text(text)
        command = [found, "-v", f"-arch={arch}", "-o", str(Path(folder) / "a.cubin"), str(path)]
        try:
            return ptxas.parse(subprocess.run(command, capture_output=True, text=True, check=False).stderr)
        except OSError:
            return {}


# In the parent


class Crew:
    """As many children as there are jobs, each made when its thread first asks and again after it died."""

    def __init__(self, jobs: int) -> None:
        self.jobs = jobs
        self._local = threading.local()
        self._all: list[Child] = []

    def ask(self, **question: Any) -> dict[str, Any]:
        child = getattr(self._local, "child", None)
        if child is None:
            child = self._local.child = Child(Path(__file__), ["--child"], {"POCL_MAX_PTHREAD_COUNT": "2"})
            self._all.append(child)
        try:
            return child.ask(**question)
        except ChildError as error:
            self._local.child = None
            gone = "died" in str(error) or "is dead" in str(error)
            if not gone:
                child.close()
            return {"status": "crash" if gone else "fails", "detail": str(error)[:500]}

    def all(self, ask: Callable[[Any], dict[str, Any]], tasks: list[Any]) -> dict[Any, dict[str, Any]]:
        with ThreadPoolExecutor(self.jobs) as pool:
            return dict(zip(tasks, pool.map(ask, tasks), strict=True))

    def close(self) -> None:
        for child in self._all:
            child.close()


def judge(answers: dict[Task, dict[str, Any]], columns: list[str], folder: str) -> dict[str, str]:
    """Turn ``ran`` into ``ok`` or ``wrong``: by NumPy where the corpus has a reference, by the first device; says what judged each."""
    judges = {}
    for name in _programs(answers):
        sample, arrays = SAMPLES[name], {}
        for column in columns:
            if answers[Task("program", name, column)]["status"] == "ran":
                with np.load(Path(folder) / f"{name}@{column.replace(':', '_')}.npz") as found:
                    arrays[column] = dict(found)
        if not arrays:
            continue
        first = next(iter(arrays))
        expected, judges[name] = arrays[first], first
        reference = None
        if name in REFERENCES:
            values = {operand.parameter.name: operand.value if operand.array is None else operand.array for operand in sample.given()}
            reference = {output: np.asarray(array).reshape(-1) for output, array in REFERENCES[name](values).items()}
            judges[name] = "NumPy"
        for column, got in arrays.items():
            answer = answers[Task("program", name, column)]
            try:
                compare(sample, first, got, expected)
                if reference is not None:
                    compare(sample, "NumPy", {o: got[o].reshape(-1)[: a.size] for o, a in reference.items()}, reference)
                answer["status"] = "ok"
            except AssertionError as error:
                answer |= {"status": "wrong", "detail": str(error)[:500]}
    return judges


def _programs(answers: dict[Task, dict[str, Any]]) -> list[str]:
    return list(dict.fromkeys(task.name for task in answers if task.kind == "program"))


def parse() -> argparse.Namespace:
    commands = parser(__doc__)
    commands.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes")
    commands.add_argument("--only", type=re.compile, default=re.compile(""), help="only constructs and programs whose name this finds")
    commands.add_argument("--arch", default="sm_90", help="what CUDA compiles for")
    commands.add_argument(
        "--libclc", default=next(filter(os.path.exists, _LIBCLC), None), help="libclc's bitcode for NVPTX, for Clang's registers"
    )
    commands.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    return commands.parse_args()


def main() -> None:
    """Ask everything, print the tables, write every answer."""
    options = parse()
    if options.child:
        return serve({"compiles": compiles, "construct": construct, "program": corpus_program, "clang": clang})
    chosen = [devices.get(name) for name in options.device] if options.device else devices.devices()
    ids = [device.info.id for device in chosen]
    columns = [*ids, COMPILES]
    names = {kind: [*filter(options.only.search, known)] for kind, known in (("construct", CASES), ("program", SAMPLES))}
    tasks = [Task(kind, name, column) for column in columns for kind, listed in names.items() for name in listed]
    compiler = next(filter(None, map(shutil.which, _CLANGS)), None) if options.libclc else None
    crew = Crew(options.jobs)
    with tempfile.TemporaryDirectory() as folder:

        def ask(task: Task) -> dict[str, Any]:
            if task.column == COMPILES:
                return crew.ask(do="compiles", name=task.name, kind=task.kind, arch=options.arch)
            more = {"folder": folder} if task.kind == "program" else {}
            return crew.ask(do=task.kind, name=task.name, device=task.column, **more)

        answers = crew.all(ask, tasks)
        judges = judge(answers, ids, folder)
    beside = (
        crew.all(
            lambda name: crew.ask(do="clang", name=name, compiler=compiler, library=options.libclc, arch=options.arch), names["program"]
        )
        if compiler
        else {}
    )
    crew.close()

    print_table(["right of those asked", *columns], _shares(answers, columns))
    bad = {task: answer for task, answer in answers.items() if answer["status"] not in ("ok", "not asked")}
    for task, answer in bad.items():
        print(f"{task.column}: {task.kind} {task.name}: {answer['status']}: {answer.get('detail', '').splitlines()[:1]}")
    static = {name: answers[Task("program", name, COMPILES)].get("static") for name in names["program"]}
    _print_static({name: found for name, found in static.items() if found}, beside)
    document = {
        "bench": "dialect",
        **facts(options.commit),
        "only": options.only.pattern,
        "architecture": options.arch,
        "devices": {device.info.id: [device.info.name, device.info.platform, device.info.driver] for device in chosen},
        "constructs": {name: {column: answers[Task("construct", name, column)] for column in columns} for name in names["construct"]},
        "programs": {name: {column: answers[Task("program", name, column)] for column in columns} for name in names["program"]},
        "judged_by": judges,
        "static": static,
        "clang": {"compiler": compiler, "programs": beside},
    }
    where = slug(next((device.info.name for device in chosen if device.info.kind == "gpu"), chosen[0].info.name if chosen else "no-device"))
    print(f"\nwritten to {save(f'dialect-{where}', document, options.out)}")


def _shares(answers: dict[Task, dict[str, Any]], columns: list[str]) -> list[list[str]]:
    """Rows of the table: groups of constructs, all of them, and programs, on each device."""
    constructs = list(dict.fromkeys(task.name for task in answers if task.kind == "construct"))
    groups = {group: [case.name for case in cases if case.name in constructs] for group, cases in GROUPS.items()}
    rows = []
    for title, kind, names in (
        *((group, "construct", names) for group, names in groups.items() if names),
        ("all constructs", "construct", constructs),
        ("programs", "program", _programs(answers)),
    ):
        rows.append([title, *(_share([answers[Task(kind, name, column)] for name in names]) for column in columns)])
    return rows


def _share(answers: list[dict[str, Any]]) -> str:
    kinds = Counter(answer["status"] for answer in answers)
    return f"{kinds['ok']}/{sum(kinds.values()) - kinds['not asked']}"


def _print_static(static: dict[str, dict[str, int]], beside: dict[str, dict[str, Any]]) -> None:
    """Totals over the corpus, and the registers beside Clang's."""
    if not static:
        return
    total = {what: sum(found[what] for found in static.values()) for what in next(iter(static.values()))}
    total.pop("registers")
    registers = float(np.median([found["registers"] for found in static.values()]))
    print(f"\nthe corpus for CUDA: median registers {registers:g}; in all " + ", ".join(f"{n} {what}" for what, n in total.items()))
    both = [(static[name]["registers"], found["registers"]) for name, found in beside.items() if "registers" in found and name in static]
    if both:
        ours, theirs = (float(np.median(side)) for side in zip(*both, strict=True))
        more, fewer = sum(a > b for a, b in both), sum(a < b for a, b in both)
        print(f"registers beside Clang's, {len(both)} programs: median {ours:g} and {theirs:g}; more in {more}, fewer in {fewer}")


if __name__ == "__main__":
    main()
