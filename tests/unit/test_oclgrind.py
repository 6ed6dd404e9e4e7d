"""What Oclgrind's log says, and what becomes of a winner in which it found something."""

from __future__ import annotations

from pathlib import Path

import pytest

from portatile.errors import NoValidVariantError, UsageError
from portatile.store import ResultStore
from portatile.trials import Trial
from portatile.tuning.search import oclgrind
from portatile.tuning.search.request import TuningResult
from support.devices import CPU
from support.faulty import Faulty

LOG = """
Read-write data race at local memory address 0x1000000000004
\tKernel: racy

\tFirst entity:  Global(1,0,0) Local(1,0,0) Group(0,0,0)
\t  store float %0, float addrspace(3)* %arrayidx2, align 4, !dbg !35, !tbaa !30
\tAt line 3 (column 8) of user.cl:
\t  t[i] = a[get_global_id(0)];

\tSecond entity: Global(0,0,0) Local(0,0,0) Group(0,0,0)
\tAt line 4 (column 25) of user.cl:
\t  a[get_global_id(0)] = t[(i + 1) % get_local_size(0)];

Read-write data race at local memory address 0x1000000000008
\tKernel: racy
\tAt line 3 (column 8) of user.cl:
\tAt line 4 (column 25) of user.cl:

Invalid write of size 4 at global memory address 0x2000000000040
\tKernel: over
\tEntity: Global(15,0,0) Local(7,0,0) Group(1,0,0)
"""


def test_findings_of_a_log() -> None:
    assert oclgrind.findings(LOG) == (
        "read-write data race in local memory, kernel racy, line 3 and 4 (work-items (1,0,0) and (0,0,0))",
        "invalid write of size 4 in global memory, kernel over (work-items (15,0,0))",
    )
    assert oclgrind.findings("") == ()


def trial(workload: Faulty, group: int, seconds: float) -> Trial:
    return Trial(workload.problem({"n": 64}), {"fault": "none", "group": group}, CPU, "text", "ok", (seconds,))


def result(workload: Faulty) -> TuningResult:
    fast, slow = trial(workload, 16, 1.0), trial(workload, 32, 2.0)
    return TuningResult(fast.problem, CPU, (slow, fast), fast, slow, "budget", 1.0)


def test_the_next_configuration_wins(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    workload, said = Faulty(), list[str]()
    monkeypatch.setattr(oclgrind, "inspect", lambda workload, problem, config, info: ("a race",) if config["group"] == 16 else ())
    with ResultStore(tmp_path / "results.sqlite") as store:
        found = oclgrind.settle(result(workload), workload, store, said.append)
        assert found.best.config["group"] == 32
        assert [(one.config["group"], one.status) for one in found.trials] == [(32, "ok"), (16, "wrong")]
        assert [(one.status, one.message) for one in store.trials()] == [("wrong", "Oclgrind: a race")]
    assert len(said) == 2


def test_nothing_wins_where_all_race(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    workload = Faulty()
    monkeypatch.setattr(oclgrind, "inspect", lambda *given: ("a race",))
    with ResultStore(tmp_path / "results.sqlite") as store, pytest.raises(NoValidVariantError, match="each of the 2 fastest"):
        oclgrind.settle(result(workload), workload, store, lambda text: None)


def test_where_it_is_absent_that_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(oclgrind, "_registered", lambda: False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match="Oclgrind is not installed"):
        oclgrind.check_installed()
    (tmp_path / "bin").mkdir()
    (tmp_path / "lib/x86_64-linux-gnu/oclgrind").mkdir(parents=True)
    (tmp_path / "bin/oclgrind").touch(0o755)
    (tmp_path / "lib/x86_64-linux-gnu/oclgrind/liboclgrind-rt-icd.so").touch()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    oclgrind.check_installed()
