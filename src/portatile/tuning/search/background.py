"""A computation in a thread of its own, while this thread goes on polling: what workers report need not wait for it."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")
_INTERVAL = 0.01  # seconds between two polls


def in_background(compute: Callable[[], Result], poll: Callable[[], None]) -> Result:
    """The result of ``compute``, or what it raises, from a thread of its own; ``poll`` is called again and again until then.

    What ``poll`` raises ends the waiting, and the thread is left to itself.
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

    threading.Thread(target=contextvars.copy_context().run, args=(run,), daemon=True, name="portatile-background").start()
    while not ended.wait(_INTERVAL):
        poll()
    if errors:
        raise errors[0]
    return results[0]
