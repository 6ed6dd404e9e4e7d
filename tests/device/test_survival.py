"""What tuning must survive: variants that hang, crash, lie or do not fit, a parent that is killed or interrupted, and company."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import psutil
import pytest

from portatile import model
from portatile.device.base import Device
from portatile.errors import NoValidVariantError, SpaceError
from portatile.kernel import Kernel
from portatile.store import ResultStore
from portatile.trials import Budget
from portatile.tuning.protocol import Phase, Timing
from portatile.tuning.search.deadlines import PhaseLimits
from portatile.tuning.search.external_failures import OUTSIDE
from portatile.tuning.search.tuner import Progress, TuningRequest, tune
from portatile.tuning.search.worker_process import WorkerProcess
from support.faulty import FARTHER, Faulty

pytestmark = pytest.mark.usefixtures("own_directories")

QUICK = Timing(samples=3, burst=0.0005, most=0.05)
LEAST = 3 if int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")) <= 4 else 10
"""Seconds of the shortest deadline: beside many other tests a compiler may take nine."""

# A tuner in a process of its own: prints a line for each trial, and the end of the run.
TUNER = """
import sys
sys.path.insert(0, {folder!r})
from support.faulty import Faulty
from pathlib import Path
from portatile.trials import Budget
from portatile.store import ResultStore
from portatile.tuning.protocol import Timing
from portatile.tuning.search.tuner import TuningRequest, tune
workload = Faulty(("none",), tuple(range(8, 8 + {count})))
request = TuningRequest(
    workload.problem({{"n": 1003}}), {device!r}, Budget(seconds=60), "exhaustive", workload=workload, timing=Timing(3, 0.0005, 0.05)
)
with ResultStore(Path({store!r})) as store:
    result = tune(request, store, lambda progress: print("trial", progress.last.config["group"], progress.last.status, flush=True))
print("end", result.stopped, len(result.trials), "pyopencl" in sys.modules, flush=True)
"""


def launch(device: Device, store: Path, count: int) -> subprocess.Popen[str]:
    script = TUNER.format(folder=str(Path(__file__).parents[1]), count=count, device=device.info.id, store=str(store))
    strict = ["-W", "error", "-W", "default:another search"]
    return subprocess.Popen([sys.executable, *strict, "-c", script], stdout=subprocess.PIPE, text=True)


def read_trials(process: subprocess.Popen[str], count: int) -> list[psutil.Process]:
    """Wait for so many trials; the tuner's workers."""
    assert process.stdout is not None
    for _ in range(count):
        assert process.stdout.readline().startswith("trial")
    return psutil.Process(process.pid).children(recursive=True)


def wait_until_gone(processes: list[psutil.Process]) -> list[psutil.Process]:
    """Processes that outlive the others by two minutes."""
    return psutil.wait_procs(processes, timeout=120)[1]


FATE = {
    "none": "ok",
    "slow": "ok",
    "wrong": "wrong",
    "behind": "wrong",
    "compile": "compile",
    "local": "launch",
    "group": "launch",
    "hang": "timeout",
    "abort": "crash",
    "before": "wrong",
}


@pytest.mark.usefixtures("earlier_children")
def test_every_fault_is_a_trial(device: Device, tmp_path: Path) -> None:
    if device.info.kind != "cpu":
        pytest.skip("a GPU answers these faults in its own ways; see test_gpu_faults")
    workload = Faulty(tuple(FATE), (32,))
    expected = TuningRequest(
        workload.problem({"n": 1003}),
        device.info.id,
        Budget(evaluations=50),
        "exhaustive",
        workload=workload,
        timing=QUICK,
        limits=PhaseLimits(least=LEAST),
        model=False,  # it would keep two of them from being run
    )
    with ResultStore(tmp_path / "results.sqlite") as store:
        result = tune(expected, store)
        found = {str(trial.config["fault"]): trial for trial in result.trials}
        fates = {fault: trial.status for fault, trial in found.items()}
        if "doesn't fit to the local memory" in found["local"].message:  # newer PoCL ends the process where others refuse
            assert fates.pop("local") == "crash"
        assert fates == {fault: FATE[fault] for fault in fates}, {fault: trial.message for fault, trial in found.items()}
        assert "wrote 1 element behind y" in found["behind"].message
        assert "before y" in found["before"].message
        assert "local memory" in found["local"].message
        assert "launch took longer" in found["hang"].message
        assert re.search(r"ended during launch \(SIG\w+\) of a global size of \(\d+, 1, 1\)", found["abort"].message)
        assert found["wrong"].error is not None
        assert found["wrong"].error > 1
        assert found["slow"].median > 3 * found["none"].median
        assert len(found["slow"].samples) <= 2  # hopeless: measured once more at most, then left
        assert result.saved == {model.SLOW: 1}
        assert result.best == found["none"]
        assert len(result.failures) == len(set(FATE.values()) - {"ok"})
        again: list[Progress] = []
        tune(expected, store, again.append)  # in quarantine: answered, not tried again
        assert again[-1].known == len(FATE)


def test_the_model_keeps_what_cannot_run_from_running(device: Device) -> None:
    if device.info.kind != "cpu":
        pytest.skip("a GPU's compiler may refuse the local memory itself")
    workload = Faulty(("none", "local", "group"), (32,))
    problem = workload.problem({"n": 1003})
    expected = TuningRequest(problem, device.info.id, Budget(evaluations=50), "exhaustive", workload=workload, timing=QUICK)
    with ResultStore(None) as store:
        result = tune(expected, store)
        found = {str(trial.config["fault"]): trial for trial in result.trials}
        fates = {fault: trial.status for fault, trial in found.items()}
        assert "work-items in a group, the device allows" in found["group"].message
        assert "run" not in found["local"].seconds
        if "doesn't fit to the local memory" in found["local"].message:  # PoCL 5 says 0 bytes of every kernel, and ends the process
            assert fates == {"none": "ok", "local": "crash", "group": "skipped"}
            assert result.saved == {model.ON_PAPER: 1}
        else:
            assert fates == {"none": "ok", "local": "skipped", "group": "skipped"}
            assert "bytes of local memory, the device has" in found["local"].message
            assert result.saved == {model.ON_PAPER: 1, model.COMPILED: 1}
            assert result.failures == {}
        plain = tune(replace(expected, model=False), store)  # what was only rejected on paper is tried now
    assert plain.saved == {}
    assert sum(plain.failures.values()) == 2


def test_the_default_is_never_turned_away(device: Device) -> None:
    workload = Faulty(("group",), (32,), default="group")
    expected = TuningRequest(
        workload.problem({"n": 1003}), device.info.id, Budget(evaluations=9), "exhaustive", workload=workload, timing=QUICK
    )
    with ResultStore(None) as store, pytest.raises(NoValidVariantError, match="launch: 1"):
        tune(expected, store)


@pytest.mark.parametrize("fault", ["hang", "abort", "behind", "wrong", "compile", "local", "group"])
def test_gpu_faults(device: Device, fault: str) -> None:
    """After any fault the next variants are right."""
    if device.info.kind == "cpu":
        pytest.skip("for GPUs; test_every_fault_is_a_trial is the CPU's")
    workload = Faulty((fault, "none"), (32, 64), default="none")
    problem = workload.problem({"n": 1003})
    limits = PhaseLimits(least=LEAST, launch=20)
    with ResultStore(None) as store:
        result = tune(
            TuningRequest(problem, device.info.id, Budget(evaluations=9), "exhaustive", workload=workload, timing=QUICK, limits=limits),
            store,
        )
    assert all((trial.status == "ok") == (trial.config["fault"] == "none") for trial in result.trials), result.trials
    assert len(result.trials) == 4


def test_a_killed_parent_loses_no_finished_trial(device: Device, tmp_path: Path) -> None:
    path = tmp_path / "results.sqlite"
    process = launch(device, path, 2000)
    workers = read_trials(process, 5)
    assert workers
    process.kill()
    assert process.stdout is not None
    printed = 5 + process.stdout.read().count("trial")
    process.wait()
    assert not wait_until_gone(workers)
    with ResultStore(path) as store:
        groups = tuple(int(trial.config["group"]) for trial in store.trials())  # several workers finish in any order
        assert len(groups) in (printed, printed + 1)  # stored before it is reported
        resumed = TuningRequest(
            Faulty().problem({"n": 1003}),
            device.info.id,
            Budget(evaluations=len(groups)),
            "exhaustive",
            timing=QUICK,
            workload=Faulty(("none",), groups),
        )
        heard: list[Progress] = []
        tune(resumed, store, heard.append)
        assert heard[-1].known == len(groups)


def test_ctrl_c_keeps_what_was_found(device: Device, tmp_path: Path) -> None:
    process = launch(device, tmp_path / "results.sqlite", 2000)
    workers = read_trials(process, 3)
    process.send_signal(signal.SIGINT)
    assert process.stdout is not None
    lines = process.stdout.read().splitlines()
    assert process.wait(60) == 0
    word, stopped, count, opened = lines[-1].split()
    assert (word, stopped) == ("end", "interrupted")
    assert opened == "False", "the parent loaded OpenCL"
    assert not wait_until_gone(workers)
    with ResultStore(tmp_path / "results.sqlite") as store:
        assert int(count) >= 3
        assert 0 <= len(store.trials()) - int(count) <= 1, "what was stored just before it need not be told; nothing told may be lost"


@pytest.mark.thinned(1 / 3)
def test_two_tuners_share_a_store(device: Device, tmp_path: Path) -> None:
    path = tmp_path / "results.sqlite"
    processes = [launch(device, path, 12) for _ in range(2)]
    for process in processes:
        out, _ = process.communicate(timeout=200)
        assert process.returncode == 0
        assert out.splitlines()[-1].startswith("end exhausted 12")
    with ResultStore(path) as store:
        trials = store.trials()
    assert {trial.config["group"] for trial in trials} == set(range(8, 20))
    assert {trial.status for trial in trials} == {"ok"}


def test_a_worker_that_is_killed_is_replaced(device: Device, earlier_children: frozenset[psutil.Process]) -> None:
    """Between two trials nobody is to blame: what was not begun is evaluated by the next worker."""
    workload = Faulty(("none",), tuple(range(8, 20)))
    killed = []

    def kill(progress: Progress) -> None:
        if progress.evaluations in (1, 5):
            for child in set(psutil.Process().children()) - earlier_children:
                os.kill(child.pid, signal.SIGKILL)
                os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # it has ended before the next variant is sent
                killed.append(child.pid)

    expected = TuningRequest(
        workload.problem({"n": 1003}), device.info.id, Budget(evaluations=50), "exhaustive", workload=workload, timing=QUICK
    )
    with ResultStore(None) as store:
        result = tune(replace(expected, jobs=0), store, kill)
    assert len(set(killed)) == 2
    assert [trial.status for trial in result.trials] == ["ok"] * 12


@pytest.mark.usefixtures("earlier_children")
def test_a_worker_that_is_killed_from_outside_is_no_fault_of_its_variant(device: Device, tmp_path: Path) -> None:
    """Each worker that begins a variant is killed: tried once more, then told apart, and tried again by the next run."""
    workload = Faulty(("none",), (8, 9))
    request = TuningRequest(
        workload.problem({"n": 1003}), device.info.id, Budget(seconds=60), "exhaustive", workload=workload, timing=QUICK
    )
    with ResultStore(tmp_path / "results.sqlite") as store:
        with pytest.MonkeyPatch.context() as patch:
            enter = WorkerProcess.enter

            def killed(self: WorkerProcess, phase: Phase, limit: float) -> None:
                enter(self, phase, limit)
                if self.variant is not None and phase == "launch":
                    os.kill(self.process.pid, signal.SIGKILL)

            patch.setattr(WorkerProcess, "enter", killed)
            with pytest.raises(NoValidVariantError, match="a signal from outside"):
                tune(request, store)
        assert {trial.status for trial in store.trials()} == {"crash"}
        assert all(OUTSIDE in trial.conditions for trial in store.trials())
        result = tune(request, store)
    assert [trial.status for trial in result.trials] == ["ok", "ok"]


def test_failures_that_are_remembered_name_the_way_out(device: Device, tmp_path: Path) -> None:
    workload = Faulty(("wrong",), (8,), default="wrong")
    request = TuningRequest(
        workload.problem({"n": 1003}), device.info.id, Budget(seconds=60), "exhaustive", workload=workload, timing=QUICK
    )
    with ResultStore(tmp_path / "results.sqlite") as store:
        for message in ("wrong: 1", "--fresh"):
            with pytest.raises(NoValidVariantError, match=message):
                tune(request, store)


@pytest.mark.parametrize("command", [["tune", "gemm", "-m", "8", "-n", "8", "-k", "8", "--budget", "1s"], ["devices"]], ids=" ".join)
def test_too_few_files_are_a_clear_error(command: list[str]) -> None:
    """Said before a driver is loaded, which may end the process where it cannot open a file."""
    script = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (12, 12)); from portatile.cli import main; import sys; "
    script += f"code = main({command}); assert 'pyopencl' not in sys.modules; sys.exit(code)"
    completed = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=120)
    assert completed.returncode == 2
    assert "open" in completed.stderr.splitlines()[-1]
    assert "ulimit -n" in completed.stderr.splitlines()[-1]


def test_a_budget_holds_while_a_legal_configuration_is_sought(device: Device) -> None:
    def branching(a: int, b: int, c: int, d: int, e: int, f: int) -> bool:
        return bool(a) and a + b + c + d + e + f == 114

    arrays = (np.zeros(64, np.float32),)
    text = "kernel void twice(global float *x) { x[get_global_id(0)] *= 2; }"
    values = {name: list(range(20)) for name in "abcdef"}
    kernel = Kernel(text, "twice", arrays, values, local_size=8, global_size=64, constraints=[branching])
    with pytest.raises(SpaceError, match="in time"):
        kernel.tune("2s", device=device.info.id)


def test_a_variant_that_writes_far_from_its_arrays_does_not_win(device: Device, tmp_path: Path) -> None:
    workload = Faulty(("far",), (32,), default="far")
    request = TuningRequest(
        workload.problem({"n": 1003}), device.info.id, Budget(seconds=60), "exhaustive", workload=workload, timing=QUICK
    )
    with (
        ResultStore(tmp_path / "results.sqlite") as store,
        pytest.raises(NoValidVariantError, match=r"wrote 1 element before y, as far as y\[-100000\] and 1 element behind y"),
    ):
        tune(request, store)


@pytest.mark.usefixtures("all_near")  # or on a disturbed machine it is alone among the finalists, which nobody compares
def test_a_finalist_that_writes_farther_than_a_search_looks_does_not_win(device: Device, tmp_path: Path) -> None:
    workload = Faulty(("none", FARTHER), (32,))
    request = TuningRequest(
        workload.problem({"n": 1003}), device.info.id, Budget(seconds=60), "exhaustive", workload=workload, timing=QUICK
    )
    with ResultStore(tmp_path / "results.sqlite") as store:
        assert tune(request, store).best.config["fault"] == "none"
