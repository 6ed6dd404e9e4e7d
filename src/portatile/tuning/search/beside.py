"""A computation of this process beside which something else goes on: what workers report need not wait for it."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")
_LOOK = 0.01  # seconds between two calls of what goes on beside it


def beside(compute: Callable[[], Result], meanwhile: Callable[[], None]) -> Result:
    """The result of ``compute``, or what it raises, from a thread of its own; ``meanwhile`` is called again and again until it is there.

    What ``meanwhile`` raises ends the waiting, and the thread is left to itself.
    """
    results: list[Result] = []
    errors: list[BaseException] = []
    ended = threading.Event()

    def run() -> None:
        try:
            results.append(compute())
        except BaseException as error:
            errors.append(error)
        finally:
            ended.set()

    threading.Thread(target=contextvars.copy_context().run, args=(run,), daemon=True, name="portatile-beside").start()
    while not ended.wait(_LOOK):
        meanwhile()
    if errors:
        raise errors[0]
    return results[0]
