"""Modules that run as child processes end with their parent: a kernel or a driver that hangs goes on for no one."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

import portatile
from portatile import processes

ROOT = Path(portatile.__file__).parent
OTHERS = {
    "__main__.py": "the command line",
    "tuning/worker/forks.py": "ends with its socket",
    "measure/profiler_counters.py": "a profiler's child",
}
CHILDREN = sorted(
    name
    for file in ROOT.rglob("*.py")
    if '__name__ == "__main__"' in file.read_text(encoding="utf-8") and (name := file.relative_to(ROOT).as_posix()) not in OTHERS
)


def test_who_waits_for_a_child_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "_KILLED", 0.1)
    children: list[subprocess.Popen[str]] = []

    def deaf(child: subprocess.Popen[str]) -> None:
        children.append(child)  # as in a driver's call that nothing interrupts

    with monkeypatch.context() as patch:
        patch.setattr(subprocess.Popen, "kill", deaf)
        began = time.monotonic()
        with pytest.raises(subprocess.TimeoutExpired):
            processes.finished([sys.executable, "-c", "import time; time.sleep(60)"], 0.2)
        assert time.monotonic() - began < 30
    for child in children:
        child.kill()
        child.communicate()


@pytest.mark.parametrize("name", CHILDREN)
def test_a_child_ends_with_its_parent(name: str) -> None:
    assert "processes.end_with_parent()" in (ROOT / name).read_text(encoding="utf-8")


def test_the_children_are_found() -> None:
    assert {"doctor.py", "measure/first_ceilings.py", "measure/isolated_run.py", "tuning/worker/__main__.py"} <= set(CHILDREN)
