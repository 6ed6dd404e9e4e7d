"""Which portatile this is: its version, and the commit where it lies in a repository."""

from __future__ import annotations

import subprocess
from functools import cache
from importlib import metadata
from pathlib import Path


def version() -> str:
    """The installed version; ``0+source`` for a tree that is not installed."""
    try:
        return metadata.version("portatile")
    except metadata.PackageNotFoundError:
        return "0+source"


@cache
def revision() -> str:
    """The commit of the package where a repository holds its files, with a word where there are changes; else nothing."""
    here = Path(__file__)
    if not _git(here.parent, "ls-files", here.name):  # installed beside another project's files
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
