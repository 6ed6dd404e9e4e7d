"""Seconds from a fresh process to its first result, with caches cold and warm: the newest run of each program on each device."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from recorded import Table, markdown, processor, runs, through

STATES = (("cold", "cold"), ("cold", "warm"), ("warm", "cold"), ("warm", "warm"))


def from_results(folder: Path) -> Iterator[Table]:
    """One table."""
    rows, files = {}, {}
    for run in runs("cold_warm", folder):
        for program in run.document["programs"]:
            if "rows" not in program:
                continue
            device = program["device"]
            sizes = "x".join(map(str, program["sizes"]))
            name = f"{processor(device['name'])}, {through(device)}: {program['name']} {sizes}"
            state = {(row["own"], row["driver"]): row for row in program["rows"]}
            build = " / ".join(f"{_ms(state[cache]['median']['build'] + state[cache]['median']['kernel'])}" for cache in STATES)
            rows[name] = [name, *(f"{state[cache]['first_result']:.2f}" for cache in STATES), build, run.commit]
            files[name] = run.file
    head = [f"{own} / {driver}" for own, driver in STATES]
    text = markdown(
        ("portatile's cache / the driver's", *(f"{cache}, s" for cache in head), "build and load in these states, ms", "commit"),
        (row for _, row in sorted(rows.items())),
    )
    yield Table("cold-warm", text, frozenset(files.values()))


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:.0f}" if seconds >= 0.01 else f"{1e3 * seconds:.1f}"
