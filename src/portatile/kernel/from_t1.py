"""The arguments of ``Kernel`` from a T1 specification, whose arguments have places instead of names."""

from __future__ import annotations

from typing import Any

from portatile.errors import ArgumentError
from portatile.formats.t1 import Specification
from portatile.kernel.text import KernelText, corners


def terms(found: Specification) -> dict[str, Any]:
    """The keyword arguments of ``Kernel``; raises ArgumentError where the file does not match the kernel's signature."""
    head = KernelText.of(found.kernel_file, found.kernel, found.options, {}, corners(found.parameters, found.default)).head
    names = [parameter.name for parameter in head.parameters]
    if len(names) != len(found.arguments):
        takes = f"{found.kernel} takes {len(names)}: {', '.join(names)}"
        raise ArgumentError(f"{found.kernel_file}: the file has {len(found.arguments)} Arguments, {takes}")
    roles = {name: role for name, role in zip(names, found.roles, strict=True) if role is not None}
    wanted = {names[place]: reference for place, reference in found.references.items()}
    buffers = [parameter.name for parameter in head.parameters if parameter.kind == "buffer"]
    written = [name for name in buffers if name not in head.read_only and roles.get(name) != "in"]
    if strays := [name for name in wanted if name not in written]:
        raise ArgumentError(f"{found.kernel_file}: ReferenceArguments are for {', '.join(strays)}, which {found.kernel} does not write")
    return {
        "source": found.kernel_file,
        "name": found.kernel,
        "arguments": found.arguments,
        "parameters": found.parameters,
        "global_size": found.global_size,
        "local_size": found.local_size,
        "constraints": found.constraints,
        "reference": {name: wanted[name].values if name in wanted else None for name in written} if wanted else None,
        "rtol": {name: reference.rtol for name, reference in wanted.items()},
        "atol": {name: reference.atol for name, reference in wanted.items()},
        "roles": roles,
        "default": found.default,
        "options": found.options,
    }
