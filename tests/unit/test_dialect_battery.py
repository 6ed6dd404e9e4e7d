"""The battery of OpenCL C constructs compiles as CUDA, without a GPU, and reaches memory by address space."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from portatile.device import cuda_compiler
from portatile.program import lower
from portatile.records import Source

sys.path.insert(0, str(Path(__file__).parents[1]))
from battery import CASES

pytestmark = pytest.mark.skipif(cuda_compiler.available() is not None, reason=str(cuda_compiler.available()))

# Where the text itself mixes address spaces behind one pointer, or keeps an array in the stack, generic accesses remain.
GENERIC_ALLOWED = {"async_copy"}


@pytest.mark.parametrize("name", CASES)
def test_compiles_without_generic_accesses(name: str) -> None:
    """PTX for sm_90; a load or store that names no address space would cost a look-up at run time."""
    case = CASES[name]
    target = cuda_compiler.CudaTarget("sm_90", "ptx")
    source, entries = lower(Source(f"{name}.cl", case.text, tuple(case.defines.items())), target)
    ptx = target.compile(source, entries).data.decode()
    symbols = {entry.symbol for entry in entries}
    assert case.kernel in {entry.name for entry in entries}
    assert symbols == set(re.findall(r"\.visible \.entry (\w+)\(", ptx))
    generic = re.findall(r"^\s*(?:ld|st)\.(?!global|shared|const|param|local|volatile\.(?:global|shared|local))\S+.*", ptx, re.MULTILINE)
    assert name in GENERIC_ALLOWED or not generic
