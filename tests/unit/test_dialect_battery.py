"""The battery of OpenCL C constructs as CUDA without a GPU: NVRTC compiles each kernel, and an interpreter runs the PTX."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from portatile.device.cuda import compiler as cuda_compiler
from portatile.images import Sampler
from support.battery import CASES, GROUPS
from support.battery.case import In, Local, Out, Picture
from support.battery.check import check, compare, host
from support.ptx_machine import GlobalMemory, Machine

pytestmark = pytest.mark.skipif(cuda_compiler.available() is not None, reason=str(cuda_compiler.available()))

# Pointers of unknown space: which side of a strided copy is the local one, which of an array of pointers is meant.
GENERIC_ALLOWED = {"async_copy", "pointers_to_pointers"}


@pytest.mark.drawn(1 / 5)
@pytest.mark.parametrize("name", CASES)
def test_translation(name: str) -> None:
    """It compiles, names the address space of every load and store, and computes what NumPy does."""
    case = CASES[name]
    target = cuda_compiler.CudaTarget("sm_90", "ptx")
    source, entries = target.lower(case.source)
    ptx = target.compile(source, entries).data.decode()
    assert {entry.symbol for entry in entries} == set(re.findall(r"\.visible \.entry (\w+)\(", ptx))
    generic = re.findall(r"^\s*(?:ld|st)\.(?!global|shared|const|param|local|volatile\.(?:global|shared|local))\S+.*", ptx, re.MULTILINE)
    assert name in GENERIC_ALLOWED or not generic
    entry = next(entry for entry in entries if entry.name == case.kernel)
    assert [p.kind for p in entry.parameters] == [_kind(arg) for arg in case.args]

    memory = GlobalMemory()
    machine = Machine(ptx, memory)
    outputs: list[tuple[Out, int, int]] = []
    pictures: list[tuple[Picture, int]] = []
    arguments, shared = [], 0
    for arg in case.args:
        if isinstance(arg, Local):
            arguments.append(shared.to_bytes(4, "little"))
            shared += -(-arg.nbytes // 128) * 128
        elif isinstance(arg, In | Out):
            raw = host(arg)
            address = memory.allocate(raw.tobytes())
            arguments.append(address.to_bytes(8, "little"))
            if isinstance(arg, Out):
                outputs.append((arg, address, raw.nbytes))
        elif isinstance(arg, Picture):
            address = memory.allocate(arg.array.tobytes())
            arguments.append(memory.texture(address, arg.form))
            pictures.append((arg, address))
        elif isinstance(arg, Sampler):
            arguments.append(arg.bits.to_bytes(4, "little"))
        else:
            arguments.append(arg.tobytes())
    grid = [n // g for n, g in zip(case.size, case.group, strict=True)]
    machine.launch(entry.symbol, grid, case.group, arguments, shared)
    for out, address, nbytes in outputs:
        check(case, out, np.frombuffer(memory.read(address, nbytes), np.uint8))
    for picture, address in pictures:
        result = np.frombuffer(memory.read(address, picture.array.nbytes), picture.array.dtype).reshape(picture.array.shape)
        compare(case, Out(picture.array if picture.expected is None else picture.expected), result)


def _kind(arg: In | Out | Picture | Local | Sampler | np.generic) -> str:
    if isinstance(arg, Picture):
        return "image"
    return "local" if isinstance(arg, Local) else "buffer" if isinstance(arg, In | Out) else "scalar"


def test_the_table_in_the_documentation() -> None:
    """The figures are those of the battery."""
    page = (Path(__file__).parents[2] / "docs" / "internals" / "dialect.md").read_text()
    for name, cases in GROUPS.items():
        pocl = sum("Portable Computing Language" not in case.without and not case.fp16 for case in cases)
        assert f"| {name} | {len(cases)} | {pocl} | {len(cases)} | {len(cases)} |" in page
    assert len(CASES) == sum(map(len, GROUPS.values()))
