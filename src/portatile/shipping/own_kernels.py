"""Export of users' own kernels to a folder that other programs use without portatile."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from portatile import device as devices
from portatile.errors import ArgumentError, UsageError
from portatile.kernel import Kernel, TunedKernel
from portatile.kernel.arguments import Scalar
from portatile.records import Launch, Plan
from portatile.shipping import folder as folders
from portatile.shipping.folder import ShippedItem, ShippedPrograms
from portatile.workload import packed_layout


@dataclass(frozen=True)
class OwnKernelItem(ShippedItem):
    """A configuration of a user's own kernel."""

    kernel: Kernel = field(kw_only=True)

    def entry(self, programs: ShippedPrograms) -> dict[str, Any]:
        """Its entry in the table. Integers, and vectors and structures by value, are fixed as in the kernel's definition, because sizes
        depend on them; other numbers may be passed.

        Raises UsageError for a kernel with images.
        """
        declared = self.kernel.arguments
        if declared.sampled or any(array.form is not None for array in declared.arrays):
            raise UsageError("a kernel with images cannot be exported; its text is the property `text` of its tuning result")
        (launch,) = self.kernel.plan(self.problem, self.config, self.info).steps
        assert isinstance(launch, Launch)
        free = {scalar.name: scalar.value for scalar in declared.all if isinstance(scalar, Scalar) and isinstance(scalar.value, float)}
        args = tuple(replace(arg, value=None) if arg.kind == "scalar" and arg.name in free else arg for arg in launch.args)
        operands = []
        for array in declared.arrays:
            shape, dtype = array.value.shape or (1,), array.value.dtype.name
            if array.value.dtype.names is not None:  # structures, as bytes along a last axis
                shape, dtype = (*shape, array.value.itemsize), array.dtype
            place = {"strides": list(packed_layout(shape).strides), "offset": 0, "elements": math.prod(shape)}
            operands.append({"name": array.name, "role": array.role, "dtype": dtype, "shape": list(shape), **place})
        step = Launch(launch.source, launch.kernel, launch.global_size, launch.local_size, args)
        return folders.table_entry(self, Plan((step,)), operands, free, programs)


def export(folder: str | Path, *kernels: Kernel | TunedKernel, device: str | None = None) -> Path:
    """Write one's own kernels to ``folder``, which then runs them without portatile; see docs/use/export.md. Returns the folder.

    A ``TunedKernel`` is exported with its winner for the device on which it was tuned; a ``Kernel`` with the best known configuration for
    ``device`` (default: the best one), else its default. A configuration that was tuned with another text, definition or driver is checked
    before it is written, as before a call; if it fails there is a warning, and the default is written. Arrays keep the shapes of the
    definition. An older export is replaced. Raises UsageError for a folder that holds something else and for kernels with images,
    CompileError for one that does not compile.

    Examples:
        >>> import numpy as np, portatile, tempfile
        >>> text = "kernel void twice(global float *x, float by) { x[get_global_id(0)] *= by; }"
        >>> twice = portatile.Kernel(text, "twice", (np.ones(64, np.float32), 2.0), {"block": [8, 16]}, local_size="block", global_size=64)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     sorted(path.name for path in portatile.export(folder, twice).iterdir())
        ['kernels.json', 'loader.py', 'programs', 'trials.json']
    """
    if not kernels:
        raise ArgumentError("there is nothing to export; pass kernels, or the results of tuning them")
    items = [_item(kernel, device) for kernel in kernels]
    shipped = folders.write(Path(folder), items)
    if shipped.left_out:
        raise UsageError(f"not everything was exported to {folder}: {'; '.join(shipped.left_out)}")
    return Path(folder)


def _item(kernel: Kernel | TunedKernel, device: str | None) -> OwnKernelItem:
    if isinstance(kernel, TunedKernel):
        opened, best = devices.get(kernel.device.id), kernel.best
        own, problem, choice = kernel.kernel, best.problem, kernel.kernel.checked_choice(best, opened)
    elif not isinstance(kernel, Kernel):
        raise ArgumentError(f"a {type(kernel).__name__} cannot be exported; pass a portatile.Kernel, or the result of tuning it")
    else:
        opened = devices.get(device)
        own, problem, choice = kernel, kernel.problem(), kernel.explain(device)
    tuned = choice.trial if choice.reason == "tuned" else None
    return OwnKernelItem(problem, choice.config, opened.info, choice.explanation, tuned, kernel=own)
