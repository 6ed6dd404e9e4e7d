"""What a user is told of a text that does not build: other languages, what a compiler lacks, macros that nobody defined."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from portatile import Kernel, program
from portatile.device import backends
from portatile.device.advice import advice
from portatile.device.cuda import compiler as cuda_compiler
from portatile.dialect.other_languages import other_language
from portatile.errors import ArgumentError, CompileError
from portatile.records import Source


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("\n__global__ void k(float *x) {}", "k.cl:2: __global__ is CUDA C; write OpenCL C"),
        ('#line 7 "a.h"\nint f() { return threadIdx.x; }', "a.h:7: threadIdx is CUDA C"),
        ("kernel void k(global float *x, int blockDim) { x[blockDim + blockIdx . y] = 1; }", "k.cl:1: blockIdx is CUDA C"),
        ("// words\ntemplate <class T> T f(T x) { return x; }", "k.cl:2: template is C++, and OpenCL C has none"),
        ("kernel void k(global float *x) { x[0] = std::max(1.f, 2.f); }", "k.cl:1: std::max is C++"),
        ("kernel void k(global ${T} *x) {}", "k.cl:1: ${T} is for a template engine"),
        ("{% for i in range(3) %}\nkernel void k() {}", "k.cl:1: {% for is for a template engine"),
    ],
)
def test_words_of_other_languages_are_named_with_their_line(text: str, said: str) -> None:
    assert other_language(text, "k.cl").startswith(said)


@pytest.mark.parametrize(
    "text",
    [
        "// threadIdx.x\nkernel void k(global float *x) {}",
        "kernel void k(global int *x) { int blockIdx = get_group_id(0) * 64, threadIdx = get_local_id(0); x[blockIdx] = threadIdx; }",
        "kernel void k(global int *x, const int3 blockDim) { int4 *threadIdx; int2 blockIdx[2]; x[blockDim.x] = blockIdx[0].y; }",
        "int f(int3 block, int3 threadIdx) { int3 a, blockIdx = block; return blockIdx.y + threadIdx.x; }",
        "#ifdef __CUDACC__\n__global__\n#else\nkernel\n#endif\nvoid k(global float *x) {}",
        'kernel void k(global float *x) { printf("${x} a::b template <"); }',
        "kernel void k(global float *template, int a, int b) { template[0] = a < b ? a : b; }",
        "#define AT(i) x[i]\nkernel void k(global float *x) { int t[2][2] = {{1, 2}, {3, 4}}; AT(0) = t[0][1]; }",
    ],
)
def test_opencl_c_is_taken_for_what_it_is(text: str) -> None:
    assert other_language(text, "k.cl") == ""


def test_a_text_for_cuda_and_opencl_is_a_kernel() -> None:
    """The words of CUDA C that the preprocessor takes out do not count; those that it leaves do."""
    text = """
#ifdef __CUDACC__
extern "C" __global__ void twice(float *x)
#else
kernel void twice(global float *x)  // get_global_id is what blockIdx and threadIdx give
#endif
{ x[get_global_id(0)] *= 2; }
"""
    twice = Kernel(text, "twice", (np.ones(64, np.float32),), {"block": [16]}, local_size="block", global_size=64)
    assert twice.name == "kernel:twice"
    with pytest.raises(ArgumentError, match=r"twice\.cl:3: __global__ is CUDA C"):
        Kernel(text, "twice", (np.ones(64, np.float32),), {"block": [16], "__CUDACC__": [1]}, local_size="block", global_size=64)


@pytest.mark.parametrize(
    ("log", "said"),
    [
        ("error: k.cl:2:58: declaring function parameter of type '__private half' is not allowed; did you forget * ?", "vload_half"),
        ("error: k.cl:1:5: use of type 'double' requires cl_khr_fp64 and OpenCL C 1.0", "no double precision"),
        (
            "error: k.cl:1:9: passing '__local int *' to parameter of type '__private int *' changes address space of pointer",
            "-cl-std=CL2.0",
        ),
        ("error: k.cl:1:9: implicit declaration of function 'sub_group_reduce_add' is invalid in OpenCL", "sub-groups"),
        ('k.cl(1): error: identifier "intel_sub_group_shuffle" is undefined', "sub-groups"),
        ('k.cl(1): error: identifier "image2d_depth_t" is undefined', "images of depth"),
        ('k.cl(1): error: identifier "TILE" is undefined\nk.cl(2): error: identifier "TILE" is undefined', "TILE: undefined; if the text"),
        ("error: k.cl:1:9: use of undeclared identifier 'WORK_SIZE'", "-D WORK_SIZE=..."),
        ("error: k.cl:1:9: call to 'pow' is ambiguous", "as in pow(x, 2.0f)"),
        ('k.cl(1): error: more than one instance of overloaded function "pow" matches the argument list:', "pow: these arguments fit"),
        ("error: k.cl:3:23: implicit declaration of function 'sqr' is invalid in OpenCL", ""),
    ],
)
def test_a_compilers_message_is_explained(log: str, said: str) -> None:
    told = advice(Source("k.cl", "kernel void k(global float *x) { float half_way = x[0] / 2; }"), log)
    assert said in told if said else told == ""


@pytest.mark.parametrize(
    "log", ["k.cl:1:9: error: call to 'vload4' is ambiguous", "k.cl:1:3: error: no matching function for call to 'fma'"]
)
def test_a_compiler_may_have_half_without_its_functions(log: str) -> None:
    """As NVIDIA's for OpenCL."""
    assert "lacks functions of half" in advice(Source("k.cl", "kernel void k(global half *x) { half4 v = vload4(0, x); }"), log)
    assert advice(Source("k.cl", "kernel void k(global float *x) { float4 v = vload4(0, x); }"), log) == ""


@pytest.mark.skipif(cuda_compiler.available() is not None, reason=str(cuda_compiler.available()))
def test_advice_stands_before_the_log() -> None:
    """Where the list of messages is long, and of a text without kernels the assembler's statistics are left out."""
    target = backends()["cuda"].target("sm_90", "")
    with pytest.raises(CompileError) as failed:
        program.build(Source("k.cl", "kernel void k(global float *x) { x[0] = TILE; }"), target, None)
    head, told, first = str(failed.value).splitlines()[:3]
    assert head.startswith("k.cl does not build for sm_90")
    assert told.startswith("TILE: undefined")
    assert "TILE" in first
    with pytest.raises(CompileError) as failed:
        program.build(Source("k.cl", "__global__ void k(float *x) { x[threadIdx.x] = 1; }"), target, None)
    assert "__global__ is CUDA C" in str(failed.value)
    assert "ptxas" not in str(failed.value)


def test_run_names_the_language(tmp_path: Path) -> None:
    from portatile.cli._kernels import read

    (tmp_path / "k.cl").write_text("__global__ void k(float *x) {}\n")
    with pytest.raises(CompileError, match=r"k\.cl:1: __global__ is CUDA C"):
        read(tmp_path / "k.cl", (), (), ()).entries()


@pytest.mark.skipif(cuda_compiler.available() is not None, reason=str(cuda_compiler.available()))
def test_a_files_name_may_hold_what_strings_escape(tmp_path: Path) -> None:
    r"""As C:\new\k.cl does."""
    from portatile.cli._kernels import read

    folder = tmp_path / 'a "new\\dir"'
    folder.mkdir()
    (folder / "two.h").write_text("#define TWO two\n")
    (folder / "k.cl").write_text('#include "two.h"\nkernel void k(global float *x) {\n    x[0] = TWO;  // as written\n}\n')
    target = backends()["cuda"].target("sm_90", "")
    with pytest.raises(CompileError) as failed:
        program.build(read(folder / "k.cl", (), (), ()).source, target, None)
    lines = str(failed.value).splitlines()
    place = next(number for number, line in enumerate(lines) if line.startswith(f"{folder / 'k.cl'}(3): error"))
    assert lines[place + 1] == "      x[0] = TWO;  // as written"
