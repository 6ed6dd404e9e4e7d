"""Ports for servers that a test ends and starts again: such as no other process is given by chance meanwhile."""

from __future__ import annotations

import random
import socket

_RANGE = range(20_000, 32_000)  # below those that Linux (32768 on) and others (49152 on) give to who asks for any


def free_port() -> int:
    """A port that nobody listens at, and that the system gives to nobody who asks for any."""
    for port in random.SystemRandom().sample(_RANGE, 100):
        with socket.socket() as tried:
            try:
                tried.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise OSError("no port is free")
