"""Ctrl-C ends the command line with code 130, one line and no traceback: while it is imported, while it runs and after it."""

from __future__ import annotations

import subprocess
import sys

import pytest

# Runs `portatile --version` and is interrupted when a module is about to be imported, or at the end.
SCRIPT = """
import atexit, os, signal, sys

where = sys.argv[1]

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == where:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Finder())
if where == "the end":
    atexit.register(os.kill, os.getpid(), signal.SIGINT)
if where == "ignored":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    atexit.register(os.kill, os.getpid(), signal.SIGINT)
from portatile.__main__ import main
if where == "twice":
    from portatile import cli
    cli.main = lambda begin: (begin(), os.kill(os.getpid(), signal.SIGINT), signal.pause())
sys.argv[1:] = ["--version"]
sys.exit(main())
"""


def run(where: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", SCRIPT, where], capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("where", ["portatile.cli", "click", "platformdirs", "the end"])
def test_an_interrupt_is_one_line(where: str) -> None:
    done = run(where)
    assert (done.returncode, done.stderr) == (130, "interrupted\n")


def test_a_second_interrupt_is_silent() -> None:
    done = run("twice")
    assert (done.returncode, done.stderr) == (130, "")


def test_what_runs_in_the_background_is_not_interrupted() -> None:
    done = run("ignored")
    assert (done.returncode, done.stderr) == (0, "")
    assert "portatile" in done.stdout
