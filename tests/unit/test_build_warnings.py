"""Builds in several threads leave the process's warnings as they were, and hide nobody else's."""

from __future__ import annotations

import threading
import warnings

import pyopencl
import pytest

from portatile.device.opencl import build_warnings


def test_filters_are_back_after_builds_that_overlap() -> None:
    """The first thread to begin is the first to end: each alone would bring the other's filters back."""
    begun, ended = threading.Event(), threading.Event()

    def first() -> None:
        with build_warnings.left_out():
            begun.wait(60)
        ended.set()

    before = list(warnings.filters)
    thread = threading.Thread(target=first)
    thread.start()
    with build_warnings.left_out():
        begun.set()
        ended.wait(60)
        with pytest.warns(UserWarning, match="of somebody else"):
            warnings.warn("of somebody else", UserWarning, stacklevel=1)
        with warnings.catch_warnings(record=True) as seen:
            warnings.warn("Non-empty compiler output encountered", pyopencl.CompilerWarning, stacklevel=1)
            warnings.warn("Pre-build attribute access defeats compiler caching.", stacklevel=1)
    thread.join()
    assert not seen
    assert list(warnings.filters) == before
