"""Which portatile made a page: its version, and the commit where a repository holds its files."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from portatile import provenance
from portatile.formatting import duration


@pytest.mark.skipif(shutil.which("git") is None, reason="no git")
def test_the_commit_is_of_the_repository_that_holds_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not of one in whose folder a virtual environment happens to lie."""

    def git(*words: str) -> str:
        who = ("-c", "user.name=a", "-c", "user.email=a@b")
        return subprocess.run(["git", "-C", str(tmp_path), *who, *words], check=True, capture_output=True, text=True).stdout.strip()

    module = tmp_path / "site-packages" / "provenance.py"
    module.parent.mkdir()
    module.write_text("")
    (tmp_path / ".gitignore").write_text("site-packages\n")
    git("init", "-q")
    git("add", ".gitignore")
    git("commit", "-qm", "another project")
    monkeypatch.setattr(provenance, "__file__", str(module))
    provenance.revision.cache_clear()
    assert provenance.revision() == ""
    assert provenance.release() == provenance.version()
    git("add", "-f", "site-packages")
    git("commit", "-qm", "the package itself")
    provenance.revision.cache_clear()
    assert provenance.release() == f"{provenance.version()} (commit {git('rev-parse', '--short', 'HEAD')})"
    module.write_text("changed")
    provenance.revision.cache_clear()
    assert provenance.revision().endswith("-dirty")
    provenance.revision.cache_clear()


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.0, "0 us"), (31.94e-6, "31.9 us"), (0.5, "500 ms"), (2.0, "2 s"), (999.4, "999 s"), (999.6, "1000 s"), (123456.0, "123456 s")],
)
def test_a_time_is_never_written_with_an_exponent(seconds: float, text: str) -> None:
    assert duration(seconds) == text
