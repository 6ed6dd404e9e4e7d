"""Common parts of the benches: command line, child processes that take turns or start anew, facts about the machine, results as JSON."""

from __future__ import annotations

import argparse
import json
import os
import platform
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from statistics import median
from typing import Any

HERE = Path(__file__).parent
RESULTS = HERE / "results"


class ChildError(RuntimeError):
    """A child answered with an error, or died."""


class Child:
    """A Python process that answers one JSON line for each JSON line it is sent. It sleeps between its turns.

    Two thread pools in one process disturb each other, and a crash of one participant must not end the bench: so every
    participant lives in a process of its own.
    """

    def __init__(self, script: Path, args: Sequence[str], env: Mapping[str, str] | None = None, python: str = sys.executable) -> None:
        self.name = " ".join(args)
        command = [python, str(script), *args]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, **(env or {})}
        )

    def ask(self, **question: Any) -> dict[str, Any]:
        """Send a question, wait for its answer; raises ChildError."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(question) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise ChildError(f"{self.name} is dead (exit code {self._process.poll()})") from None
        line = self._process.stdout.readline()
        if not line:
            raise ChildError(f"{self.name} died (exit code {self._process.wait()})")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise ChildError(f"{self.name}: {answer['error']}")
        return answer

    def close(self) -> None:
        """End the child."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def parser(doc: str | None, device: str = "every device", several: bool = True) -> argparse.ArgumentParser:
    """A command line that says what ``doc`` says, with ``--commit``, ``--out`` and, unless ``device`` is empty, ``--device``.

    ``device`` names the default; ``several`` devices are a list, empty if none is named.
    """
    commands = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    if device:
        meaning = f"as `portatile devices` names it; {'repeat; ' if several else ''}default: {device}"
        commands.add_argument("--device", help=meaning, **({"action": "append", "default": []} if several else {}))
    commands.add_argument("--commit", help="what to record where there is no git")
    commands.add_argument("--out", type=Path, default=RESULTS, help="folder for the result; default bench/results")
    return commands


@contextmanager
def until_stopped() -> Iterator[None]:
    """Ctrl-C, or a SIGTERM such as that of `timeout`, ends what is inside; what follows prints and saves what was measured until then.

    After a SIGTERM a second one is ignored: `timeout` sends two, and the other may come late.
    """
    stopped = False

    def stop(*_: object) -> None:
        nonlocal stopped
        stopped = True
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # in the background of a shell; children would not hear an interrupt either
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    except KeyboardInterrupt:
        print("\nended early: what was measured until now follows", file=sys.stderr)
    finally:
        if not stopped:
            signal.signal(signal.SIGTERM, before)


def environment(folder: str) -> dict[str, str]:
    """The variables of a process that begins with empty stores and caches, portatile's and the drivers', and when it is started."""
    places = {
        "PORTATILE_DATA_DIR": "data",
        "PORTATILE_CACHE_DIR": "cache",
        "POCL_CACHE_DIR": "pocl",
        "CUDA_CACHE_PATH": "cuda",
        "CUPY_CACHE_DIR": "cupy",
        "XDG_CACHE_HOME": "xdg",
    }
    for name in places.values():
        Path(folder, name).mkdir(exist_ok=True)
    variables = {**os.environ, **{variable: str(Path(folder, name)) for variable, name in places.items()}}
    return {**variables, "BENCH_STARTED": repr(time.monotonic())}


def afresh(script: str, task: Mapping[str, Any], folder: str) -> dict[str, Any]:
    """What ``script --child TASK`` answers in its last line, run in ``folder`` with nothing else remembered; raises ChildError."""
    command = [sys.executable, str(Path(script).resolve()), "--child", json.dumps(task)]
    done = subprocess.run(command, env=environment(folder), cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ChildError(f"{task}: {done.stderr[-2000:]}")
    answer: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return answer


@dataclass(frozen=True)
class Ended:
    """How a command ended: what it printed, its code (negative: the signal), seconds, and what the bench did to end it."""

    out: str
    told: str
    code: int
    seconds: float
    ended: str = ""


def supervised(words: Sequence[str], seconds: float, patience: float, env: Mapping[str, str] | None = None) -> Ended:
    """Run a command in a session of its own; after ``seconds`` interrupt it as Ctrl-C does, ``patience`` later kill it with its children.

    Its output goes to files, so that no child that outlives it can hold this process up. A KeyboardInterrupt here ends it in the same way.
    """
    began, how = time.monotonic(), ""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as told:
        child = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=out, stderr=told, env=env, start_new_session=True)
        try:
            child.wait(seconds)
        except subprocess.TimeoutExpired:
            how = "interrupted"
        finally:
            if child.returncode is None:
                child.send_signal(signal.SIGINT)
                try:
                    child.wait(patience)
                except subprocess.TimeoutExpired:
                    how = "killed"
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(child.pid, signal.SIGKILL)  # the child itself, or workers that it left
            with suppress(subprocess.TimeoutExpired):  # a driver may hold it for long
                child.wait(patience + 1.0)
        texts = []
        for file in (out, told):
            file.seek(0)
            texts.append(file.read().decode(errors="replace"))
    code = -signal.SIGKILL if child.returncode is None else child.returncode
    return Ended(texts[0], texts[1], code, time.monotonic() - began, how)


def shapes(text: str, names: Collection[str]) -> list[dict[str, int]]:
    """``512,1024x64x512`` as sizes of these names, in their order; one number stands for all. Ends the bench for what does not fit."""
    listed = []
    for shape in text.split(","):
        numbers = [int(part) for part in shape.split("x")]
        numbers = numbers * len(names) if len(numbers) == 1 else numbers
        if len(numbers) != len(names):
            sys.exit(f"{shape}: give one number, or {'x'.join(names)}")
        listed.append(dict(zip(names, numbers, strict=True)))
    return listed


def serve(handlers: Mapping[str, Any]) -> None:
    """The child's side: call ``handlers[question["do"]]`` with the rest of each question until the input ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print must not reach the answers
    for line in sys.stdin:
        question = json.loads(line)
        try:
            answer = handlers[question.pop("do")](**question)
        except Exception as error:  # every failure of a participant is the parent's to report
            answer = {"error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def clock() -> tuple[float, float]:
    """Wall time and the process's CPU time, in seconds."""
    return time.perf_counter(), time.process_time()


def facts(commit: str | None = None) -> dict[str, Any]:
    """Machine, versions, commit and time: what a result is worth nothing without."""
    return {
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit or _commit(),
        "command": _command(sys.argv),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "gpu": _gpu(),
        "versions": {name: found for name in _PACKAGES if (found := version(name))},
    }


_PACKAGES = ("portatile", "numpy", "pyopencl", "pocl-binary-distribution", "cuda-core", "cuda-bindings", "nvidia-cuda-nvrtc", "torch")


def version(package: str) -> str:
    """The installed version of a package; empty if there is none."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def save(name: str, document: Mapping[str, Any], folder: Path = RESULTS) -> Path:
    """Write a result; its name tells bench and time."""
    return rewrite(folder / f"{name}-{datetime.now(UTC):%Y%m%dT%H%M%SZ}.json", json.dumps(document, indent=1) + "\n")


def rewrite(path: Path, text: str) -> Path:
    """Replace a file as a whole: who reads it, or ends this process, finds the old or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.part")
    beside.write_text(text, encoding="utf-8")
    beside.replace(path)
    return path


def slug(text: str) -> str:
    """A device's name as part of a file name."""
    return "-".join("".join(c if c.isalnum() else " " for c in text.lower()).split())


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Columns under one another; the first is text, the others figures."""
    widths = [max(len(row[place]) for row in [columns, *rows]) for place in range(len(columns))]
    for row in [columns, *rows]:
        cells = [
            cell.ljust(width) if place == 0 else cell.rjust(width) for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        print("  ".join(cells).rstrip(), flush=True)


def spread(samples: Sequence[float]) -> float:
    """Half the distance between the quartiles over the median: how unstable a row is."""
    ordered = sorted(samples)
    quarter = len(ordered) // 4
    return (ordered[-1 - quarter] - ordered[quarter]) / 2 / median(ordered)


def _command(words: Sequence[str]) -> str:
    """The command line, without what is of this machine only: where the commit is known from, and where results go."""
    words_kept, rest = [f"bench/{Path(words[0]).name}"], iter(words[1:])
    for word in rest:
        if word in ("--commit", "--out", "--json"):
            next(rest, None)
        elif not word.startswith(("--commit=", "--out=", "--json=")):
            words_kept.append(shlex.quote(word))
    return " ".join(words_kept)


def _commit() -> str:
    def git(*args: str) -> str:
        return subprocess.run(["git", "-C", str(HERE), *args], capture_output=True, text=True, check=True).stdout.strip()

    try:
        changes = git("status", "--porcelain", "--", ":(top)", ":(top,exclude)bench/results")  # where other results lie already
        return git("rev-parse", "HEAD") + (" and changes" if changes else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.processor())


def _gpu() -> list[str]:
    fields = "name,driver_version,clocks.sm,power.draw,temperature.gpu"
    try:
        done = subprocess.run(["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return []
    return done.stdout.strip().splitlines()
