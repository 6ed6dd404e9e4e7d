"""The study of gaps: shares add up, texts lose exactly what they are to lose, compiled code is counted; nothing here runs on a device."""

from __future__ import annotations

import math
import struct
from dataclasses import replace

import pytest

from portatile import device, flat_plans, select, workloads
from portatile.device import x86
from portatile.device.cuda import compiler as cuda_compiler
from portatile.device.opencl import disassembly
from portatile.dialect import nvrtc_options
from portatile.errors import DeviceError, UsageError
from portatile.measure import code, optimisations, transplant
from portatile.records import DeviceInfo, Launch, Plan, Problem, Source
from portatile.studies import gap_figures, gap_rows
from portatile.studies.framework import attribution
from portatile.studies.gap_durations import Durations
from portatile.studies.gap_rows import AVERAGED, BETWEEN, DOCUMENT, EMPTY_LAUNCH, GREEDY, LEVEL, LEVELLED, REST, GapRow, spelled_set
from support.trials import DEVICE

needs_nvrtc = pytest.mark.skipif(cuda_compiler.available() is not None, reason="no NVRTC")
NAMES = ("a", "b", "c")


def times(**factors: float) -> dict[frozenset[str], float]:
    """Of switches that do not act on one another."""
    return {subset: math.prod(1 / factors[name] for name in subset) for subset in attribution.subsets(NAMES)}


def test_independent_switches_get_their_own_factor() -> None:
    shares = attribution.averaged(times(a=2.0, b=8.0, c=1.0), NAMES)
    assert shares == pytest.approx({"a": math.log(2), "b": math.log(8), "c": 0.0})


def test_shares_add_up_and_partners_share_alike() -> None:
    """``a`` and ``b`` do something together only."""
    both = {subset: 0.25 if {"a", "b"} <= subset else 1.0 for subset in attribution.subsets(NAMES)}
    assert attribution.averaged(both, NAMES) == pytest.approx({"a": math.log(2), "b": math.log(2), "c": 0.0})


def test_orders_that_were_not_measured_are_avoided() -> None:
    known = times(a=2.0, b=8.0, c=3.0)
    del known[frozenset("a")], known[frozenset("ab")]
    assert attribution.averaged(known, NAMES) == pytest.approx({"a": math.log(2), "b": math.log(8), "c": math.log(3)})
    del known[frozenset()]
    assert attribution.averaged(known, NAMES) == {}


def test_orders() -> None:
    known = times(a=2.0, b=8.0, c=3.0)
    assert [step.added for step in attribution.in_order(NAMES)] == ["", "a", "b", "c"]
    assert [step.added for step in attribution.greedily(known, NAMES)] == ["", "b", "c", "a"]
    assert len(attribution.subsets(NAMES)) == len(set(attribution.subsets(NAMES))) == 8


def rows(side: str, factors: dict[str, float], plain: float = 1.0) -> list[GapRow]:
    made = []
    for one, seconds in times(**factors).items():
        on = spelled_set(one, NAMES)
        row = GapRow(side, side, "x", "1", "matmul", "m=8", "float32", "{}", "a,b,c", on, 1, seconds=plain * seconds)
        made.append(replace(row, families='{"load":4}', registers=8, fused=len(one)))
    return made


def test_a_side_is_explained_in_three_ways() -> None:
    done = gap_rows.finish(rows("one", {"a": 2.0, "b": 8.0, "c": 1.0}))
    by = {order: [row for row in done if row.order == order] for order in (DOCUMENT, GREEDY, AVERAGED, "")}
    assert [row.added for row in by[DOCUMENT]] == [gap_rows.PESSIMISED, "a", "b", "c"]
    assert [row.added for row in by[GREEDY]][:3] == [gap_rows.PESSIMISED, "b", "a"]
    assert [row.saved for row in by[DOCUMENT]] == [None, 0.5, 0.875, 0.0]
    assert sum(row.explained or 0.0 for row in by[DOCUMENT]) == pytest.approx(1.0)
    assert {row.added: row.explained for row in by[AVERAGED]} == pytest.approx({"a": 0.25, "b": 0.75, "c": 0.0})
    assert len(by[""]) == 8
    assert gap_rows.finish(done)[: len(done) - 8] == done[:-8]  # once more changes nothing
    figures = gap_figures.figures(done)
    assert [figure.title for figure in figures][-1] == "Instructions"
    assert "16 times" in gap_figures.notes(done)[0]
    assert all(figure.draw("x") for figure in figures)


def test_a_build_takes_about_as_long_as_those_near_to_it() -> None:
    known = Durations()
    built = {row.set: row for row in rows("one", {"a": 2.0, "b": 8.0, "c": 1.0})}
    whole, none = built[frozenset("abc")], built[frozenset()]
    known.add(none, 40.0)
    assert known.expected(whole) == 0.0, "nothing near to it is known"
    known.add(whole, 1.0)
    assert known.expected(built[frozenset("a")]) == 40.0
    assert known.expected(built[frozenset("ab")]) == 1.0
    known.add(built[frozenset("a")], 7.0)
    assert known.expected(built[frozenset("ab")]) == 7.0
    assert known.expected(replace(none, on=EMPTY_LAUNCH)) == 0.0
    assert known.expected(replace(none, side="two")) == 0.0, "another compiler"


def test_equal_code_takes_equal_time() -> None:
    built = [replace(row, code="same" if "c" in row.on else row.on) for row in rows("one", {"a": 1.0, "b": 1.0, "c": 1.0})]
    built[-1] = replace(built[-1], code="same", seconds=0.5)
    done = {row.on: row.seconds for row in gap_rows.finish(built) if not row.order}
    assert done["c"] == done["a + c"] == 0.5
    assert done["a"] == 1.0


def test_a_difference_is_explained_to_the_last() -> None:
    """The second side has no ``b``, and its plain code is twice as slow."""
    one, other = rows("one", {"a": 2.0, "b": 8.0, "c": 1.0}), rows("two", {"a": 2.0, "b": 1.0, "c": 1.0}, plain=2.0)
    launch = replace(one[0], on=EMPTY_LAUNCH, seconds=1e-6)
    done = gap_rows.finish([*one, launch, *other])
    parts = {row.added: row.explained or 0.0 for row in done if row.order == BETWEEN}
    assert parts == pytest.approx({"b": 0.75, REST: 0.25, "a": 0.0, "c": 0.0})
    result = "\n".join(gap_figures.notes(done))
    assert "the optimisations explain 75 % of the difference, 25 % is there without any" in result
    assert "a launch of nothing: 1 us on one" in result
    assert [row for row in gap_rows.finish([*one, *other]) if row.order == BETWEEN] == []  # two devices side by side are no comparison
    equal = gap_rows.finish([*one, launch, *rows("two", {"a": 2.0, "b": 8.0, "c": 1.0})])
    assert "no difference" in gap_figures.notes(equal)[-1]


def test_what_makes_two_sides_equal() -> None:
    """Without b they are; what the plain code differs in remains."""
    one, other = rows("one", {"a": 2.0, "b": 8.0, "c": 1.0}), rows("two", {"a": 2.0, "b": 1.0, "c": 1.0}, plain=0.9)
    done = gap_rows.finish([*one, replace(one[0], on=EMPTY_LAUNCH, seconds=1e-6), *other])
    parts = {row.added: row.explained or 0.0 for row in done if row.order == LEVELLED}
    assert list(parts) == ["b", LEVEL]
    assert sum(parts.values()) == pytest.approx(1.0)
    assert parts["b"] > 0.9
    assert "of the difference is gone when both do without b" in "\n".join(gap_figures.notes(done))
    few = attribution.few("abcd")
    assert len(few) == 13  # five along the order, and the three triples and five pairs that are not
    assert [frozenset("abcd"[:count]) in few for count in range(5)] == [True] * 5
    assert attribution.equalising({frozenset("a"): 1.0}) == []
    assert attribution.equalising({frozenset(): 1.0, frozenset("a"): -2.0}) == [("", 1.0)]


@pytest.mark.parametrize("host", ["one", "two"])
def test_the_others_code_tells_compilers_from_drivers(host: str) -> None:
    """The first side is four times as slow: twice because of its code, twice because of its driver."""
    one, other = rows("one", {"a": 2.0, "b": 2.0, "c": 1.0}, plain=4.0), rows("two", {"a": 2.0, "b": 2.0, "c": 1.0})
    launch, there = replace(one[0], on=EMPTY_LAUNCH, seconds=1e-6), one if host == "one" else other
    swapped = replace(there[0], on=gap_rows.SWAPPED, seconds=0.5)  # its finished code takes 1 s and 0.25 s
    done = gap_rows.finish([*one, launch, *other, swapped])
    parts = {row.added: row.explained or 0.0 for row in done if row.order == gap_rows.BY_CODE}
    assert parts == pytest.approx({gap_rows.THEIR_CODE: 0.5, gap_rows.THEIR_DRIVERS: 0.5})
    assert any("who makes it, by running the other's code: code of the compilers 50 %" in note for note in gap_figures.notes(done))
    own = replace(there[0], on=gap_rows.DRIVERS_OWN, seconds=1 / math.sqrt(2) if host == "one" else 0.25 * math.sqrt(2))
    done = gap_rows.finish([*one, launch, *other, swapped, own])
    parts = {row.added: row.explained or 0.0 for row in done if row.order == gap_rows.BY_CODE}
    assert parts == pytest.approx({gap_rows.THEIR_CODE: 0.25, gap_rows.ASSEMBLERS: 0.25, gap_rows.ONLY_DRIVERS: 0.5})
    assert not any("registers through" in note for note in gap_figures.notes(done)), "both take 8"
    elsewhere = [replace(row, registers=80) if row.on == gap_rows.SWAPPED else row for row in done]
    giver = "two" if host == "one" else "one"
    assert f"the same code takes 80 registers through {host}, 8 through {giver}" in gap_figures.notes(elsewhere)
    launches = replace(own, on=gap_rows.OTHERS_PLAN)
    done = gap_rows.finish([*one, launch, *other, swapped, own, launches])
    parts = {row.added: row.explained or 0.0 for row in done if row.order == gap_rows.BY_CODE}
    expected = {gap_rows.PLANS: 0.25, gap_rows.ASSEMBLERS: 0.0, gap_rows.THEIR_CODE: 0.25, gap_rows.ONLY_DRIVERS: 0.5}
    assert parts == pytest.approx(expected)


def test_what_failed_is_told() -> None:
    built = rows("one", {"a": 2.0, "b": 8.0, "c": 1.0})
    built[3] = replace(built[3], seconds=None, status="no registers left")
    assert any("no registers left" in note for note in gap_figures.notes(gap_rows.finish(built)))


TEXT = """#define SUM(x) for (int j = 0; j < 2; j++) x += 1
__kernel void k(__global const float* restrict a, __global float* b) {
    #pragma unroll 4
    for (int i = 0; i < 4; i++) b[i] = fma(LDG(a + i), native_cos(a[i]), rsqrt(a[i]) + native_divide(a[i], 3.0f)) + RSQRT_APPROX(a[i]);
}
"""


def plan_of(text: str) -> Plan:
    return Plan((Launch(Source("k.cl", text), "k", (1, 1, 1), (1, 1, 1), ()),))


def test_texts_lose_what_they_are_to_lose() -> None:
    whole = plan_of(TEXT)
    offered = [one.name for one in optimisations.offered(whole, DEVICE)]
    assert offered == ["unrolling", "compiler", "multiply-add", "read-only", "functions"]  # an assembler of its own has NVIDIA
    assert optimisations.built_with(whole, offered, DEVICE) == whole
    (source,) = flat_plans.sources(optimisations.built_with(whole, (), DEVICE))
    for line in ("#define native_cos(x) cos(x)", "#define native_divide(x, y) ((x) / (y))", "#define rsqrt(x) (1.0f / sqrt(x))"):
        assert line in source.text
    assert '#define SUM(x) _Pragma("unroll 1") for (int j' in source.text
    assert "#pragma unroll 4" not in source.text
    assert "#pragma unroll 1\n    for (int i" in source.text
    assert source.text.endswith(TEXT.splitlines()[-2] + "\n}\n")
    assert source.options == ("-cl-opt-disable",)
    plain = plan_of("__kernel void k(__global float* b) { b[0] = 1; }")
    assert "functions" not in [one.name for one in optimisations.offered(plain, DEVICE)]


def test_code_of_another_compiler() -> None:
    """NVIDIA's OpenCL reads offsets and the number of work-groups from registers that CUDA's driver does not set."""
    text = """.version 8.4
.target sm_90, texmode_independent
.visible .entry k(.param .u64 .ptr .global .align 4 k_param_0) {
    mov.b32 %r1, %envreg3;
    mov.u32 %r2, %ntid.x;
}"""
    plain = transplant.portable_ptx(text, "k.cl")
    assert "mov.u32 %r1, 0;" in plain
    assert ".target sm_90\n" in plain
    assert "mov.u32 %r1, 0;" in transplant.portable_ptx(text.replace("envreg3", "envreg0"), "k.cl")
    assert "mov.u32 %r1, %nctaid.y;" in transplant.portable_ptx(text.replace("envreg3", "envreg7"), "k.cl")
    with pytest.raises(DeviceError, match="envreg12"):
        transplant.portable_ptx(text.replace("envreg3", "envreg12"), "k.cl")
    with pytest.raises(DeviceError, match="no PTX"):
        transplant.portable_ptx("\x7fELF", "k.cl")


def nvidia() -> DeviceInfo:
    return device.datasheet("sm_90")


@needs_nvrtc
def test_nvrtc_sees_each_loss() -> None:
    info = nvidia()
    names = [one.name for one in optimisations.offered(plan_of(TEXT), info)]
    assert names == [optimisation.name for optimisation in optimisations.OPTIMISATIONS]
    whole = code.of(plan_of(TEXT), info)
    assert (whole.fused > 0, whole.read_only > 0, whole.kinds.get("cos.approx.f32", 0) + whole.kinds.get("cos.approx.ftz.f32", 0)) == (
        True,
        True,
        4,
    )

    def without(name: str) -> code.Code:
        return code.of(optimisations.built_with(plan_of(TEXT), [one for one in names if one != name], info), info)

    rolled = without("unrolling")
    assert rolled.kinds["cos.approx.f32"] == 1
    assert without("read-only").read_only == 0
    assert without("compiler").total > whole.total
    assert "cos.approx.f32" not in without("functions").kinds or without("functions").total > 2 * whole.total
    unassembled = without("assembler")
    assert (unassembled.families, unassembled.text != whole.text) == (whole.families, True)
    bare = code.of(
        optimisations.built_with(plan_of("__kernel void k(__global float* b) { b[0] = b[1] * b[2] + b[3]; }"), ("compiler",), info), info
    )
    assert bare.fused == 0


@needs_nvrtc
@pytest.mark.parametrize(
    "problem",
    [
        workloads.get("mri").problem({"samples": 512, "voxels": 4096}, options={"kind": "fhd"}),
        workloads.get("triangular").problem({"m": 128, "n": 32}),
    ],
    ids=lambda problem: problem.workload,
)
def test_whole_workloads_compile_without_anything(problem: Problem) -> None:
    info, workload = nvidia(), workloads.get(problem.workload)
    plan = flat_plans.flatten(workload.plan(problem, workload.default(problem, info), info), select.resolver(info, lambda name: []))
    bare, whole = code.of(optimisations.built_with(plan, (), info), info), code.of(plan, info)
    assert bare.families != whole.families
    assert bare.fused <= whole.fused


def test_options_of_optimisation() -> None:
    assert "-G" in nvrtc_options(["-cl-opt-disable"])
    assert "-Xptxas=-O0" in nvrtc_options(["-cl-nv-opt-level=0"])


LISTING = """0000000000001000 <k>:
    1000:\tpush   %rbp
    1004:\tvmovaps (%rax,%rcx,4),%ymm0
    1008:\tvmovups %ymm0,-0x40(%rsp)
    100c:\tvmovss %xmm1,(%rdi)
    1010:\tvfmadd213ps (%rax),%ymm1,%ymm2
    1014:\tvfnmadd231sd %xmm1,%xmm2,%xmm3
    1018:\tvdivps %ymm1,%ymm2,%ymm3
    101c:\tvmulps %ymm1,%ymm2,%ymm3
    1020:\tjne    1000 <k>
    1024:\tlock cmpxchg %ecx,(%rdx)
    1028:\tvbroadcastss (%rax),%ymm4
    102c:\tmov    0x8(%rdi,%rax,8),%rax
    1030:\tlea    (%rdi,%rdi,1),%eax
    1034:\tcall   900 <cosf@plt>
"""


def test_instructions_of_a_processor() -> None:
    found = [(instruction.function, instruction.family, instruction.kind) for instruction in x86.instructions(LISTING)]
    assert {function for function, _, _ in found} == {"k"}
    assert [(family, kind) for _, family, kind in found] == [
        ("stack", "push"),
        ("load", "load.ymm"),
        ("stack", "store.stack.ymm"),
        ("store", "store.xmm"),
        ("float", "vfmadd.ps.ymm"),
        ("float", "vfnmadd.sd.xmm"),
        ("special", "vdivps.ymm"),
        ("float", "vmul.ps.ymm"),
        ("control", "jne"),
        ("compare", "cmpxchg"),
        ("shuffle", "vbroadcastss.ymm"),
        ("load", "load"),
        ("integer", "lea"),
        ("call", "call"),
    ]


def elf(content: bytes) -> bytes:
    """The head of an ELF file whose section headers, none, follow its content."""
    return b"\x7fELF" + bytes(36) + struct.pack("<Q", 64 + len(content)) + bytes(10) + struct.pack("<2H", 64, 0) + bytes(2) + content


def test_the_form_for_the_own_work_group_is_shown() -> None:
    special, general = elf(b"special"), elf(b"general")
    binary = b"poclbin/k/0-0-0/k.so1234" + general + b"/k/8-8-1-goffs0-smallgrid/k.so5678" + special + b"/other/0-0-0/other.so" + general
    assert disassembly.shared_objects(binary) == {"k": special, "other": general}
    with pytest.raises(UsageError, match="no machine code"):
        disassembly.disassembled(b"nothing")
