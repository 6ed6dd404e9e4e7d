"""Compiler options and definitions in the CUDA form of OpenCL C: what NVRTC gets, and what the preprocessor sees."""

from __future__ import annotations

import re

import pytest

from portatile import dialect
from portatile.device.cuda import compiler as cuda_compiler
from portatile.records import Source
from support.compiling import Interpreted

needs_nvrtc = pytest.mark.skipif(cuda_compiler.available() is not None, reason=str(cuda_compiler.available()))


def test_build_options_of_opencl() -> None:
    """OpenCL's words become NVRTC's, each given once; what NVRTC has no word for is dropped."""
    options = dialect.nvrtc_options(
        ["-cl-std=CL1.2", "-cl-fp32-correctly-rounded-divide-sqrt", "-cl-nv-maxrregcount=96", "-lineinfo", "-lineinfo"]
    )
    assert "-prec-div=true" in options
    assert "-prec-div=false" not in options
    assert "-maxrregcount=96" in options
    assert options.count("-lineinfo") == 1
    assert not [option for option in options if option.startswith("-cl")]
    assert dialect.nvrtc_options() == dialect.NVRTC_OPTIONS


@needs_nvrtc
@pytest.mark.parametrize(
    ("option", "instruction"),
    [
        ("-cl-fast-relaxed-math", r"div\.approx\.ftz\.f32"),
        ("-cl-denorms-are-zero", r"div\.full\.ftz\.f32"),
        ("-cl-mad-enable", r"div\.full\.f32"),
        ("-cl-fp32-correctly-rounded-divide-sqrt", r"div\.rn\.f32"),
        ("-cl-opt-disable", r"div\.full\.f32"),
        ("-cl-finite-math-only", r"div\.full\.f32"),
        ("-Werror", r"div\.full\.f32"),
        ("-g", r"\.loc[\s\S]*div\.full\.f32"),
    ],
)
def test_build_options_change_the_code(option: str, instruction: str) -> None:
    """What each option makes of a division."""
    translation = dialect.translate("__kernel void k(__global float *a) { a[0] = a[1] / a[2]; }")
    source = Source("k.cl", translation.text, (), dialect.nvrtc_options([option]))
    assert re.search(instruction, Interpreted("sm_90").compile(source, translation.entries).data.decode())


NAMES = ("x", "y", "v", "w", "p", "a", "h", "c", "r", "lane", "sign", "small", "name")


def test_definitions_replace_nothing_in_the_preludes_headers() -> None:
    """A parameter may be called as any variable of theirs; what is for the prelude itself comes before it."""
    text = "kernel void f(global float *o) { o[0] = MATRIX_LOW_F16(7u) + w; }"
    lowered = dialect.opencl(text, "f.cl", (*((name, "1") for name in NAMES), ("PORTATILE_SM", "70")))
    header = lowered.index("portatile_from_f16")
    assert lowered.index("#define PORTATILE_SM 70") < lowered.index("#define PORTATILE_OPENCL 1") < header
    assert all(lowered.index(f"#define {name} 1\n") > lowered.rindex("#define MATRIX_") for name in NAMES)
    assert lowered.endswith(f'#line 1 "f.cl"\n{text}')
    alone, beside = (dialect.translate(text, defines=dict.fromkeys(names, "1")).text for names in ("w", NAMES))
    assert beside.split() == alone.split()


@pytest.mark.parametrize(
    ("options", "macros", "others"),
    [
        (["-DA", "-D", "B=2", "-cl-mad-enable", "-DC=x=y", "-D D"], {"A": "1", "B": "2", "C": "x=y", "D": "1"}, ("-cl-mad-enable",)),
        (["-DA=1", "-UA", "-DB=1", "-U", "B", "-DB=3", "-D"], {"B": "3"}, ()),
        (["-DF(x)=2*x", "-w"], {"F(x)": "2*x"}, ("-w",)),
    ],
)
def test_definitions_among_options(options: list[str], macros: dict[str, str], others: tuple[str, ...]) -> None:
    assert dialect.definitions(options) == (macros, others)


def test_a_definition_among_options_decides_what_is_translated() -> None:
    """The text is preprocessed before NVRTC sees it."""
    text = "#if TILE == 16\n#define V 5\n#else\n#define V 7\n#endif\nkernel void f(global int *y) { y[0] = V + TILE; }"
    for options, defines in ((["-DTILE=16"], {}), (["-D", "TILE=16"], {}), (["-DTILE=3"], {"TILE": "16"})):
        translated = dialect.translate(text, defines=defines, options=options)
        assert "5 + 16" in translated.text
        assert not any(option.startswith("-D") for option in translated.options)


@pytest.mark.parametrize("options", [[], ["-cl-fast-relaxed-math"]])
def test_relaxed_mathematics_shows_in_its_macro(options: list[str]) -> None:
    text = "kernel void f(global float *y) {\n#ifdef __FAST_RELAXED_MATH__\ny[0] = native_sin(y[1]);\n#endif\n}"
    assert ("native_sin" in dialect.translate(text, options=options).text.partition("namespace prog")[2]) == bool(options)
