"""The corpus of OpenCL programs as CUDA without a GPU: every one compiles, keeps its address spaces and computes what NumPy does."""

from __future__ import annotations

import re

import pytest

from portatile.device.cuda import compiler as cuda_compiler
from portatile.device.ptx import functions
from support.corpus import SAMPLES, compare, interpreted, ptx
from support.corpus.references import REFERENCES

pytestmark = pytest.mark.skipif(cuda_compiler.available() is not None, reason=str(cuda_compiler.available()))

# Wide accesses that the text asks for: of global and of shared memory.
WIDE = {
    "triad": {"ld.global.v4": 2, "st.global.v4": 1},
    "reduction_vector": {"st.shared.v4": 1, "ld.shared.v4": 1},
    "nbody": {"ld.shared.v4": 1, "st.shared.v4": 1, "st.global.v4": 2},
    "sgemm_registers": {"ld.global.v4": 4, "st.global.v4": 1},
    "fft8": {"ld.global.v2": 8, "st.global.v2": 8},
}


def test_there_are_sixty() -> None:
    assert len(SAMPLES) >= 60
    assert set(REFERENCES) <= set(SAMPLES)


@pytest.mark.drawn(1 / 5)
@pytest.mark.parametrize("name", SAMPLES)
def test_address_spaces_are_known(name: str) -> None:
    """No load, store or atomic function goes to an unknown space, no function is called, no variable is made by the prelude."""
    text = ptx(name).data.decode()
    counts = functions(text)
    assert SAMPLES[name].entry.symbol in counts
    for symbol, count in counts.items():
        assert not {kind for kind in count.kinds if kind.split(".")[1:2] == ["generic"]}, symbol
    assert not re.search(r"^\.(?:weak |visible )?\.?global .* _ZN\d*(?:4oclt|3ocl\d+portatile)", text, re.MULTILINE)
    for kind, least in WIDE.get(name, {}).items():
        assert counts[SAMPLES[name].entry.symbol].kinds.get(kind, 0) >= least, kind


@pytest.mark.drawn(1 / 5)
@pytest.mark.parametrize("name", REFERENCES)
def test_the_interpreter_computes_what_numpy_does(name: str) -> None:
    sample = SAMPLES[name]
    values = {operand.parameter.name: operand.value if operand.array is None else operand.array for operand in sample.given()}
    result = interpreted(name)
    for output, expected in REFERENCES[name](values).items():
        compare(sample, "NumPy", {output: result[output].reshape(-1)[: expected.size]}, {output: expected.reshape(-1)})
