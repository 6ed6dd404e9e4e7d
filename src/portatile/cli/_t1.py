"""A T1 file in place of a workload: `portatile tune FILE.json` and `portatile show FILE.json` are for the kernel that it describes."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import click

from portatile.cli._workloads import WorkloadGroup
from portatile.formats import t1

Action = Callable[..., int | None]


def with_files(group: WorkloadGroup, action: Action, without: Collection[str] = ()) -> WorkloadGroup:
    """Accept the name of a T1 file in place of a workload in ``group``; a file with only a kernel text is refused with advice.

    ``action`` is called with the file's ``t1.Specification`` and, by their names, with the group's options other than ``without``.
    """

    def of_file(name: str) -> click.Command | None:
        if name.endswith((".cl", ".cu", ".ocl", ".opencl")):
            raise click.UsageError(
                f"{name} is a kernel's text, which says neither its arguments nor which values to try: give both in Python "
                f"(portatile.Kernel) or in a T1 file (kernel.json). `portatile run` and `portatile compile` take OpenCL C as it is"
            )
        if name.endswith(".py"):
            raise click.UsageError(f"{name} is Python: run it with python; `kernel.tune()` in it tunes its portatile.Kernel")
        if not name.endswith(".json"):
            return None

        def run(**options: Any) -> int | None:
            return action(t1.read(Path(name)), **options)

        parameters = [parameter for parameter in group.parameters if parameter.name not in without]
        return click.Command(name, params=parameters, callback=run, help=f"The kernel that {name} describes (T1).")

    group.of_file = of_file
    return group
