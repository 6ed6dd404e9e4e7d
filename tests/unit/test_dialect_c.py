"""What C allows and C++ does not, where the battery cannot say it: refusals, lines, symbols, the preprocessor's finer points."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from portatile import dialect, program
from portatile.device.cuda import compiler as cuda_compiler
from portatile.dialect.preprocess import preprocess
from portatile.errors import CompileError
from portatile.records import Source
from support.seeds import new_seed

needs_nvrtc = pytest.mark.skipif(cuda_compiler.available() is not None, reason=str(cuda_compiler.available()))


def built(text: str, file: str = "user.cl") -> dialect.Translation:
    """The translation of a text that NVRTC accepts; raises CompileError as a user sees it."""
    program.build(Source(file, text), cuda_compiler.CudaTarget("sm_90", "ptx"), None)
    return dialect.translate(text, file=file)


def complaint(text: str) -> str:
    with pytest.raises(CompileError) as raised:
        built(text)
    return str(raised.value)


@needs_nvrtc
def test_directives_between_parameters(tmp_path: Path) -> None:
    """Headers leave lines' directives wherever the text has an ``#if``, also in a list of parameters; lines stay the user's."""
    (tmp_path / "declare.h").write_text("#define ARRAY(name) __global int *name##_data, \\\n  int name##_size\n")
    text = """#include "declare.h"
__kernel void f(ARRAY(a)
#ifndef ALONE
                ,
                ARRAY(b)
#endif // ALONE
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
                , int n)
{
  a_data[n] = b_size;
  WRONG
}
"""
    gathered = dialect.gather(text, tmp_path / "user.cl")
    (entry,) = built(gathered.replace("WRONG", "")).entries
    assert [parameter.name for parameter in entry.parameters] == ["a_data", "a_size", "b_data", "b_size", "n"]
    assert "user.cl(12): error" in complaint(gathered.replace("WRONG", "a_data[0] = nothing()"))  # where the semicolon is missed
    assert "user.cl(11): error" in complaint(gathered.replace("WRONG", "a_data[0] = nothing();"))


def test_tokens_of_expansions_stay_apart() -> None:
    """A minus before a macro that begins with one, digits before a sign: no two tokens grow together, and none falls apart."""
    text = """#define F 77
#define MINUS -x
#define NEGATIVE(a) -a
#define HEX 0xE
x-MINUS; NEGATIVE(-x); HEX+1; 1.F + 2.E3F; x+++y; a<<=b; v.s0;
"""
    assert preprocess(text, "a.cl", {}).strip() == "x- -x; - -x; 0xE +1; 1.F + 2.E3F; x+++y; a<<=b; v.s0;"


def test_macros_without_a_blank_and_words_across_lines() -> None:
    """``#define M-1`` is one, and a backslash may split a word; a form feed ends no line."""
    assert preprocess("#define M-1\n\f\nM lo\\\nng(\\\n1) __LINE__\n", "a.cl", {}).split() == ["-1", "long", "(", "1)", "5"]


def test_random_signs_and_macros() -> None:
    """Signs behind signs, through macros at random depth, keep their number, and no pair becomes an increment."""
    seed = new_seed("draws")
    rng = random.Random(seed)
    for _ in range(200):
        signs = [rng.choice("+-&~!") for _ in range(rng.randint(1, 6))]
        lines = [f"#define M{n} {sign}M{n + 1}" for n, sign in enumerate(signs)] + [f"#define M{len(signs)} x"]
        out = preprocess("\n".join([*lines, "y = M0;"]), "a.cl", {}).strip()
        assert out.replace(" ", "") == f"y={''.join(signs)}x;"
        assert not any(pair in out for pair in ("++", "--", "&&"))


@needs_nvrtc
@pytest.mark.parametrize(
    "name", ["entry", "threadIdx", "blockDim", "warpSize", "class", "signbit", "y0", "norm", "__popc", "assert", "min_"]
)
def test_kernels_of_any_name(name: str) -> None:
    """A kernel keeps its name, and has an exported symbol that CUDA's own names leave free."""
    (entry,) = built(f"__kernel void {name}(__global int *o) {{ o[0] = 1; }}").entries
    assert entry.name == name
    assert entry.symbol in (name, f"portatile_{name}")


@needs_nvrtc
def test_lines_behind_what_moves() -> None:
    """Types that are hoisted, values that are cast and vectors that begin later leave every other line where it was."""
    text = """typedef struct {
  struct inner {
    int n;
  } one;
} outer;
struct pair { int x; }
both(__global const int *a) { struct pair p = {a[0]}; return p; }
__kernel void f(__global int *o, __global const int *a)
{
  if (a[1]) goto end;
  float4 v = (float4)(1),
         w = v;
  __global int *p = a;
  struct inner i = {3};
  o[0] = both(a).x + v.x + i.n;
end:
  o[1] = LINE;
}
"""
    built(text.replace("LINE", "2"))
    assert "user.cl(17): error" in complaint(text.replace("LINE", "unknown"))
    assert "user.cl(14): error" in complaint(text.replace("{3}", "{wrong}"))
    assert "user.cl(11): error" in complaint(text.replace("(float4)(1)", "(float4)(nobody)"))


def test_conditions_that_are_none() -> None:
    """The message has the line and what the condition came to."""
    with pytest.raises(CompileError, match=r"a.cl:2: #if: '3 \+ 1.5' is not an expression of integers"):
        preprocess("#define N 3\n#if N + 1.5\n#endif\n", "a.cl", {})


@needs_nvrtc
def test_pointers_to_other_types() -> None:
    """Older compilers of OpenCL C take with a warning what newer ones refuse, and so does the translation."""
    built("""
    typedef struct { __global float *data; } holder;
    __global uchar *other(__global float *p) { return p; }
    __kernel void f(__global const int *a, __global float *o, int n)
    {
      __global uchar *bytes, *more = a;
      bytes = a + n;
      float x = n;
      int *bits = &x;
      size_t where = o;
      where = a;
      holder h = {a}, g;
      g.data = bytes;
      o[0] = bytes[0] + more[1] + *bits + where + h.data[0] + *other(a) + g.data[n];
    }
    """)


@needs_nvrtc
def test_pointers_stay_of_their_kind() -> None:
    """C converts pointers by itself, but neither a structure nor a number with a fraction."""
    assert "error" in complaint("__kernel void f(__global float *o, float x) { __global float *p = x; p[0] = 1; }")
    assert "error" in complaint("struct s { int n; }; __kernel void f(__global int *o) { struct s a; int *p; p = a; o[0] = *p; }")
