"""Warnings name the line of the user's program, however deep in the package they arise."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from typing import Any

import pytest

DIRECTLY = """
def call():
    warn("look here")
"""
IN_A_CONTEXT = """
import contextlib

@contextlib.contextmanager
def managed():
    yield
    warn("look here")

def call():
    with managed():
        pass
"""


def inside(text: str) -> Callable[[], None]:
    """The function ``call`` of a module of the package with this text."""
    names: dict[str, Any] = {"__name__": "portatile.anything"}
    exec(compile("from portatile.user_warnings import warn\n" + text, "anything.py", "exec"), names)
    call: Callable[[], None] = names["call"]
    return call


def warned(call: Callable[[], None]) -> warnings.WarningMessage:
    """The one warning of a call."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        call()
    (warning,) = seen
    return warning


@pytest.mark.parametrize("text", [DIRECTLY, IN_A_CONTEXT])
def test_a_warning_names_the_users_line(text: str) -> None:
    warning = warned(inside(text))
    assert warning.filename == __file__
    assert warning.category is RuntimeWarning


def test_a_thread_of_the_packages_own_has_no_such_line() -> None:
    def call() -> None:
        thread = threading.Thread(target=inside(DIRECTLY))
        thread.start()
        thread.join()

    assert warned(call).filename == "anything.py"
