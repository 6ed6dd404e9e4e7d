"""The constructor arguments of ``Kernel`` from a T1 specification, which identifies the kernel's arguments by position instead of name."""

from __future__ import annotations

from typing import Any

from portatile.errors import ArgumentError
from portatile.formats.t1 import Specification
from portatile.kernel.text import KernelText, first_and_last


def constructor_arguments(specification: Specification) -> dict[str, Any]:
    """The keyword arguments of ``Kernel``; raises ArgumentError if the file does not match the kernel's signature."""
    head = KernelText.of(
        specification.kernel_file,
        specification.kernel,
        specification.options,
        {},
        first_and_last(specification.parameters, specification.default),
    ).head
    names = [parameter.name for parameter in head.parameters]
    if len(names) != len(specification.arguments):
        takes = f"{specification.kernel} takes {len(names)}: {', '.join(names)}"
        raise ArgumentError(f"{specification.kernel_file}: the file has {len(specification.arguments)} Arguments, {takes}")
    roles = {name: role for name, role in zip(names, specification.roles, strict=True) if role is not None}
    references = {names[place]: reference for place, reference in specification.references.items()}
    buffers = [parameter.name for parameter in head.parameters if parameter.kind == "buffer"]
    written = [name for name in buffers if name not in head.read_only and roles.get(name) != "in"]
    if strays := [name for name in references if name not in written]:
        raise ArgumentError(
            f"{specification.kernel_file}: ReferenceArguments are for {', '.join(strays)}, which {specification.kernel} does not write"
        )
    return {
        "source": specification.kernel_file,
        "name": specification.kernel,
        "arguments": specification.arguments,
        "parameters": specification.parameters,
        "global_size": specification.global_size,
        "local_size": specification.local_size,
        "constraints": specification.constraints,
        "reference": {name: references[name].values if name in references else None for name in written} if references else None,
        "rtol": {name: reference.rtol for name, reference in references.items()},
        "atol": {name: reference.atol for name, reference in references.items()},
        "roles": roles,
        "default": specification.default,
        "options": specification.options,
    }
