"""Hostile kernels through `portatile run`: what they do to memory or time is told with exit code 1, and the next run is fine."""

from __future__ import annotations

import contextlib
import io
import random

from attack import AttackError, Place
from portatile.cli import main

_TEXT = """
kernel void beyond(global float *a, global const float *b, int first, int count) { for (int i = 0; i < count; i++) a[first + i] = b[0]; }
kernel void endless(global volatile int *a) { while (a[0] == 0) ; }
kernel void input(global float *a, global const float *b, int at) { a[0] = 1.0f; ((global float *)b)[at] = 2.0f; }
kernel void fine(global float *a) { a[get_global_id(0)] = 1.0f; }
"""
_LARGEST = 5000


def _ran(place: Place, *words: str) -> tuple[int, str]:
    file = place.folder / "hostile.cl"
    file.write_text(_TEXT)
    device = [] if place.device is None else ["--device", place.device]
    err, out = io.StringIO(), io.StringIO()
    with contextlib.redirect_stderr(err), contextlib.redirect_stdout(out):
        code = main(["run", str(file), *words, "--repeat", "0", *device])
    return code, err.getvalue()


def attempt(rng: random.Random, place: Place) -> str:
    """One hostile run, and one that is fine after it."""
    size, count = rng.randint(1, _LARGEST), rng.randint(1, 200)
    name, words, told = rng.choice(
        (
            ("behind", ("beyond", str(size), "4=ones", str(size), str(count)), f"wrote {count} elements behind a"),
            ("before", ("beyond", str(size), "4=ones", str(-count), str(count)), f"wrote {count} elements before a"),
            ("around", ("beyond", str(size), "4=ones", "-1", str(size + 2)), "before a"),
            ("endless", ("endless", "4", "--timeout", "2"), "did not end within 2 s"),
            ("behind its input", ("input", "4", str(size), str(size)), "behind b"),
        )
    )
    code, err = _ran(place, words[0], "--global", "1", *words[1:])
    if code != 1 or told not in err:
        raise AttackError(f"{' '.join(words)} ended with {code} and said {err!r}, not {told!r}")
    code, err = _ran(place, "fine", "--global", str(size), str(size))
    if code != 0:
        raise AttackError(f"a run that is fine ended with {code} after {name}: {err}")
    return name
