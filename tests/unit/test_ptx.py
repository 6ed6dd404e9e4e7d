"""Counting instructions in PTX: the grammar's corners, the families, and what a compiler of today writes."""

from __future__ import annotations

import re

import pytest

from portatile.device import ptx
from portatile.device.cuda import compiler as cuda_compiler
from portatile.records import Source

KERNEL = """
.version 8.0
.target sm_90 // ret; ret;
.address_size 64
.file 1 "/a//b/fma.rn.f32;.cu"
.extern .func (.param .b32 answer) vprintf (.param .b64 text, .param .b64 list);
.global .align 4 .b8 table[8] = {1, 2, 3, 4, 5, 6, 7, 8};

.visible .entry first(
    .param .u64 first_param_0,
    .param .u32 first_param_1
)
.maxntid 128, 1, 1
{
    .reg .pred %p<3>;
    .reg .f32 %f<40>;   /* fma.rn.f32 %f1, %f2, %f3, %f4;
                           two lines */
    .loc 1 30 0
    ld.param.u64 %rd1, [first_param_0];
    ld.global.nc.v4.f32 {%f1, %f2, %f3, %f4}, [%rd1];
    ld.global.L2::128B.f32 %f9, [%rd1+16];
    ld.f32 %f10, [%rd1];
$L__BB0_1: fma.rn.f32 %f5, %f1, %f2, %f3;
    .pragma "nounroll";
    { mad.f32 %f6, %f1, %f2, %f3; }
    @!%p1 bra $L__BB0_1;
    @%p2 mul.wide.s32 %rd2, %r1, 4;
    sqrt.rn.f32 %f7, %f6;
    rsqrt.approx.ftz.f32 %f8, %f6;
    div.full.f32 %f8, %f6, %f5;
    cvt.rn.f32.s32 %f11, %r1;
    set.gt.f32.f32 %f12, %f1, %f2;
    add.rn.f64 %fd1, %fd2, %fd3;
    st.shared::cta.v2.f32 [%r4], {%f5, %f6};
    st.local.u32 [%r5], %r6;
    atom.global.add.f32 %f13, [%rd1], %f8;
    cp.async.cg.shared.global [%r7], [%rd1], 16;
    ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r1, %r2, %r3, %r4}, [%r5];
    mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32
        {%f1, %f2, %f3, %f4}, {%r1, %r2, %r3, %r4}, {%r5, %r6}, {%f1, %f2, %f3, %f4};
    bar.sync 0;
    call.uni (answer),
        vprintf,
        (param0, param1);
    ret;
}
.func (.param .b32 result) second(.param .b32 x)
{
    tex.2d.v4.f32.s32 {%f1, %f2, %f3, %f4}, [image, {%r1, %r2}];
    fma.rn.f16x2 %h1, %h2, %h3, %h4;
    shfl.sync.bfly.b32 %r1|%p1, %r2, 1, 31, -1;
    ret;
}
"""


def test_every_instruction_is_found_once() -> None:
    found = [(instruction.function, instruction.name) for instruction in ptx.instructions(KERNEL)]
    assert [name for function, name in found if function == "second"] == ["tex.2d.v4.f32.s32", "fma.rn.f16x2", "shfl.sync.bfly.b32", "ret"]
    first = [name for function, name in found if function == "first"]
    assert first[:6] == ["ld.param.u64", "ld.global.nc.v4.f32", "ld.global.L2::128B.f32", "ld.f32", "fma.rn.f32", "mad.f32"]
    assert first[-5:] == [
        "ldmatrix.sync.aligned.m8n8.x4.shared.b16",
        "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32",
        "bar.sync",
        "call.uni",
        "ret",
    ]
    assert len(first) == 23


def test_families() -> None:
    counts = ptx.functions(KERNEL)
    assert dict(counts["first"].families) == {
        "load": 5, "float32": 3, "control": 3, "integer": 1, "special": 2, "convert": 1, "compare": 1, "float64": 1,
        "store": 2, "atomic": 1, "copy": 1, "matrix": 1, "barrier": 1,
    }  # fmt: skip
    assert dict(counts["second"].families) == {"texture": 1, "float16": 1, "warp": 1, "control": 1}
    assert counts["first"].total == 23


def test_kinds_keep_what_matters() -> None:
    kinds = ptx.functions(KERNEL)["first"].kinds
    expected = [
        "ld.param", "ld.global.nc.v4", "ld.global", "ld.generic", "fma.f32", "mad.f32", "bra", "mul.s32",
        "sqrt.rn.f32", "rsqrt.approx.ftz.f32", "div.full.f32", "cvt.f32.s32", "set.f32", "add.f64", "st.shared.v2",
        "st.local", "atom.global", "cp.async", "ldmatrix", "mma.sync", "bar", "call", "ret",
    ]  # fmt: skip
    assert set(kinds) == set(expected)
    assert ptx.functions(KERNEL)["first"].local == 1


def test_counts_add_up_over_functions() -> None:
    whole = ptx.count(ptx.instructions(KERNEL))
    assert whole.total == sum(counts.total for counts in ptx.functions(KERNEL).values()) == sum(whole.kinds.values())
    assert list(whole.families.values()) == sorted(whole.families.values(), reverse=True)


@pytest.mark.parametrize("text", ["", "// only a comment", ".version 8.0\n.target sm_90", ".extern .func f (.param .b32 x);"])
def test_text_without_bodies_has_no_instructions(text: str) -> None:
    assert list(ptx.instructions(text)) == []
    assert ptx.count(ptx.instructions(text)).total == 0


def test_an_unfinished_body_is_counted_to_its_end() -> None:
    assert [i.name for i in ptx.instructions(".entry f() { add.s32 %r1, %r2, %r3; ret;")] == ["add.s32", "ret"]


COULOMB = """
extern "C" __global__ void coulomb(const float4* atoms, float* grid, int count) {
    float x = threadIdx.x, sum[8] = {0};
    for (int n = 0; n < count; n++) {
        float4 a = atoms[n];
        #pragma unroll
        for (int i = 0; i < 8; i++) { float d = x + 16 * i - a.x; sum[i] += a.w / sqrtf(d * d + a.y * a.y + a.z); }
    }
    #pragma unroll
    for (int i = 0; i < 8; i++) grid[threadIdx.x + 16 * i] = sum[i];
}
"""


@pytest.mark.skipif(cuda_compiler.available() is not None, reason=f"no CUDA compiler: {cuda_compiler.available()}")
@pytest.mark.parametrize("fast", [False, True])
def test_a_compilers_output(fast: bool) -> None:
    """Eight points of the Coulomb sum: with fast mathematics the division and the root become one approximate function."""
    options = ("--use_fast_math",) if fast else ()
    text = cuda_compiler.CudaTarget("sm_90", "ptx").compile(Source("coulomb.cu", COULOMB, (), options)).data.rstrip(b"\0").decode()
    counts = ptx.functions(text)["coulomb"]
    roots = {kind: n for kind, n in counts.kinds.items() if "sqrt" in kind}
    assert sum(n for kind, n in roots.items() if kind.startswith("rsqrt.approx.ftz" if fast else "sqrt.rn")) % 8 == 0
    assert roots
    assert any(kind.startswith("ld.global") and kind.endswith("v4") for kind in counts.kinds)
    assert counts.kinds["st.global"] >= 8
    assert counts.local == 0
    plain = re.findall(r"^\s+(?:@!?%\w+\s+)?([a-z][\w.:]*)[^\n]*;\s*$", text[text.index("{") :], re.MULTILINE)
    assert counts.total == len(plain)
