"""The identity of this portatile: its version, and its commit if it is in a repository."""

from __future__ import annotations

import subprocess
from functools import cache
from importlib import metadata
from pathlib import Path


def version() -> str:
    """The installed version; ``0+source`` for a source tree that is not installed."""
    try:
        return metadata.version("portatile")
    except metadata.PackageNotFoundError:
        return "0+source"


@cache
def revision() -> str:
    """The commit of the package if a repository tracks its files, with a suffix if there are changes; else empty."""
    here = Path(__file__)
    if not _git(here.parent, "ls-files", here.name):  # installed within another project's repository
        return ""
    return _git(here.parent, "describe", "--always", "--dirty", "--exclude=*")


def _git(folder: Path, *words: str) -> str:
    try:
        done = subprocess.run(["git", "-C", str(folder), *words], capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip()


def release() -> str:
    """Version and commit for people: ``0.1.0``, or ``0.1.0 (commit 1a2b3c4d-dirty)``."""
    commit = revision()
    return f"{version()} (commit {commit})" if commit else version()
