"""AMD's GPUs through Clang: what its text says of a kernel, messages in the user's lines, and every workload for three architectures."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from portatile import device, flat_plans, program, select, workloads
from portatile.cli import main
from portatile.device.amdgcn import isa, survey, toolchain
from portatile.errors import CompileError, DeviceNotFoundError, UnknownNameError, UsageError
from portatile.records import Binary, Launch, Source
from support.seeds import DRAWS, new_seed, run_seed

ARCHITECTURES = ("gfx90a", "gfx942", "gfx1100")
NAMES = workloads.names()
needs_clang = pytest.mark.skipif(toolchain.clang() is None or toolchain.library() is None, reason=toolchain.REMEDY)

TEXT = """
kernel __attribute__((reqd_work_group_size(64, 1, 1)))
void mirror(global float *y, global const float *x, const float a, local float *part)
{
    local float own[64];
    const int i = get_global_id(0), l = get_local_id(0);
    own[l] = x[i];
    part[l] = a;
    barrier(CLK_LOCAL_MEM_FENCE);
    y[i] = fma(part[63 - l], own[63 - l], FACTOR);
}
"""
ASSEMBLY = """
	.globl	f                               ; -- Begin function f
f:                                      ; @f
; %bb.0:
	s_load_dwordx2 s[0:1], s[4:5], 0x0
	v_fma_f64 v[0:1], v[2:3], v[4:5], v[0:1]
	v_mfma_f64_16x16x4f64 v[0:7], v[8:9], v[10:11], v[0:7]
	buffer_store_dword v9, off, s[0:3], 0 offset:4 ; 4-byte Folded Spill
	buffer_load_dword v9, off, s[0:3], 0 offset:4 ; 4-byte Folded Reload
	buffer_load_dwordx2 v[2:3], off, s[0:3], 0 ; 8-byte Folded Reload
	v_add_co_u32_e32 v1, vcc, s0, v0
	s_getpc_b64 s[6:7]
	s_add_u32 s6, s6, missing@gotpcrel32@lo+4
	s_endpgm
; Occupancy: 7
	.amdgpu_metadata
---
amdhsa.kernels:
  - .agpr_count:     0
    .args:
      - .address_space:  global
        .name:           !str y
        .type_name:      'double*'
        .value_kind:     global_buffer
      - .name:           group
        .type_name:      'int*'
        .value_kind:     dynamic_shared_pointer
      - .value_kind:     hidden_block_count_x
    .group_segment_fixed_size: 256
    .name:           f
    .private_segment_fixed_size: 12
    .reqd_workgroup_size:
      - 8
      - 4
      - 1
    .sgpr_count:     24
    .vgpr_count:     22
amdhsa.target:   amdgcn-unknown-amdhsa--gfx942
...
	.end_amdgpu_metadata
"""


def test_what_a_text_says_of_its_kernels() -> None:
    (entry,) = isa.entries(ASSEMBLY)
    assert (entry.name, entry.work_group) == ("f", (8, 4, 1))
    assert [(p.name, p.kind, p.type) for p in entry.parameters] == [("y", "buffer", "double*"), ("group", "local", "int*")]
    used = isa.resources(ASSEMBLY)["f"]
    assert (used.registers, used.scalar_registers, used.local_memory, used.stack) == (22, 24, 256, 12)
    assert (used.spill_stores, used.spill_loads, used.occupancy) == (4, 12, 7)
    assert isa.undefined(ASSEMBLY) == ("missing",)


def test_instructions_by_family() -> None:
    found = [(instruction.family, instruction.kind) for instruction in isa.instructions(ASSEMBLY)]
    assert found[:3] == [("load", "s_load_dwordx2"), ("float64", "v_fma_f64"), ("matrix", "v_mfma_f64_16x16x4f64")]
    assert [family for family, _ in found[3:6]] == ["private"] * 3
    assert found[6] == ("integer", "v_add_co_u32")
    assert found[-1] == ("control", "s_endpgm")
    assert {instruction.function for instruction in isa.instructions(ASSEMBLY)} == {"f"}


def test_a_missing_compiler_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for found in (toolchain.clang, toolchain.library, toolchain.version, toolchain.architectures):
        found.cache_clear()
    monkeypatch.setenv("PATH", "/nowhere")
    try:
        (finding,) = survey.survey().findings
        assert finding.level == "absent"
        assert "clang-19 libclc-19" in finding.remedy
        with pytest.raises(DeviceNotFoundError, match="apt install clang"):
            device.backends()["amdgcn"].target("gfx942")
        assert device.datasheet("gfx942").compute_units == 304, "plans need no compiler"
    finally:
        for found in (toolchain.clang, toolchain.library, toolchain.version, toolchain.architectures):
            found.cache_clear()


def test_architectures_are_known_by_their_data_sheets() -> None:
    assert [device.datasheet(name).can.sub_group for name in ARCHITECTURES] == [64, 64, 32]
    with pytest.raises(UnknownNameError, match="gfx942"):
        device.datasheet("gfx9420")


@needs_clang
def test_a_kernel_is_compiled_and_described() -> None:
    target = device.backends()["amdgcn"].target("gfx942")
    binary = program.build(Source("mirror.cl", TEXT, (("FACTOR", "2.0f"),)), target, None)
    (entry,) = binary.entries
    assert (entry.name, entry.work_group) == ("mirror", (64, 1, 1))
    assert [(p.name, p.kind) for p in entry.parameters] == [("y", "buffer"), ("x", "buffer"), ("a", "scalar"), ("part", "local")]
    used = binary.resources["mirror"]
    assert used.registers > 0
    assert (used.local_memory, used.spill_stores, used.spill_loads) == (256, 0, 0)
    families = {instruction.family for instruction in target.instructions(target.assembly(binary))}
    assert families >= {"load", "store", "local load", "local store", "float32"}


@needs_clang
def test_an_object_is_an_elf_file_for_the_architecture() -> None:
    target = device.backends()["amdgcn"].target("gfx1100", "object")
    binary = program.build(Source("mirror.cl", TEXT, (("FACTOR", "2.0f"),)), target, None)
    assert binary.data[:5] == b"\x7fELF\x02"
    assert int.from_bytes(binary.data[18:20], "little") == 224, "EM_AMDGPU"
    with pytest.raises(UsageError, match="isa"):
        target.assembly(binary)


@needs_clang
@pytest.mark.parametrize(
    ("text", "message"),
    [(TEXT.replace("own[l]", "owm[l]"), r"mirror\.cl:7:.*owm"), (TEXT.replace("fma(", "nosuch("), r"mirror\.cl:10:.*nosuch")],
)
def test_messages_name_the_users_lines(text: str, message: str) -> None:
    with pytest.raises(CompileError, match=message):
        program.build(Source("mirror.cl", text, (("FACTOR", "2.0f"),)), device.backends()["amdgcn"].target("gfx90a"), None)


@needs_clang
def test_an_unknown_architecture_is_refused_with_those_there_are() -> None:
    with pytest.raises(DeviceNotFoundError, match="gfx1100"):
        device.backends()["amdgcn"].target("gfx77")


@needs_clang
def test_commands_show_what_a_configuration_takes(capsys: pytest.CaptureFixture[str]) -> None:
    shown = ["show", "stream", "-n", "1000", "--arch", "gfx942"]
    assert main([*shown, "--stage", "resources", "--backend", "amdgcn"]) == 0
    table = capsys.readouterr().out
    assert "scalar registers" in table
    assert "occupancy" in table
    assert main([*shown, "--stage", "instructions"]) == 0
    assert "global_load" in capsys.readouterr().out
    assert main([*shown, "--stage", "assembly"]) == 0
    assert ".amdgcn_target" in capsys.readouterr().out
    assert main([*shown, "--stage", "lowered"]) == 0
    assert "PORTATILE_OPENCL" in capsys.readouterr().out


@needs_clang
def test_a_file_is_compiled_and_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, output = tmp_path / "mirror.cl", tmp_path / "mirror.o"
    file.write_text(TEXT)
    command = ["compile", str(file), "-D", "FACTOR=2.0f", "--arch", "gfx1100"]
    assert main([*command, "--emit", "isa"]) == 0
    assert "mirror:" in capsys.readouterr().out
    assert main([*command, "-o", str(output)]) == 0
    assert output.read_bytes()[:4] == b"\x7fELF"
    assert "occupancy" in capsys.readouterr().out
    assert main([*command, "--emit", "ptx"]) == 2
    assert "--backend amdgcn" in capsys.readouterr().err


def test_devices_and_architectures_are_not_mixed_up(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "stream", "-n", "64", "--backend", "amdgcn"]) == 2
    assert "--arch gfx942" in capsys.readouterr().err
    assert main(["show", "stream", "-n", "64", "--backend", "opencl", "--arch", "gfx942"]) == 2
    assert "leave out" in capsys.readouterr().err
    assert main(["show", "stream", "-n", "64", "--backend", "cuda", "--arch", "gfx942"]) == 2
    assert "sm_90" in capsys.readouterr().err


_turn = threading.Semaphore(2)


@cache
def compiled(source: Source, architecture: str) -> Binary:
    """Each text once, two at a time."""
    with _turn:
        return program.build(source, device.backends()["amdgcn"].target(architecture), None)


def sources(name: str, architecture: str, chosen: str) -> list[Source]:
    """The texts of the default, or of a random configuration, of one problem, without those of the matrix products that it calls."""
    workload, info = workloads.get(name), device.datasheet(architecture)
    number = ARCHITECTURES.index(architecture) + NAMES.index(name)
    problem = workload.problem({**dict.fromkeys(workload.sizes, 96)}, workload.dtypes[number % len(workload.dtypes)])
    rng = np.random.default_rng(new_seed(f"{name} {architecture}"))
    config = workload.default(problem, info) if chosen == "default" else workload.space(problem, info).sample(rng)
    resolve = select.resolver(info, lambda workload: ())
    plan = flat_plans.flatten(workload.plan(problem, config, info), resolve)
    launched = [step for step in plan.steps if isinstance(step, Launch)]
    return list(dict.fromkeys(step.source for step in launched if step.kernel != "gemm" or name.startswith("gemm")))


@pytest.mark.drawn(1 / 4)
@needs_clang
@pytest.mark.parametrize("name", NAMES)
def test_every_workload_compiles(name: str) -> None:
    """Defaults for every architecture and, of every second workload, a random configuration for one of them."""
    expected = [(source, architecture) for architecture in ARCHITECTURES for source in sources(name, architecture, "default")]
    number = NAMES.index(name) + run_seed()
    if number % 2 or DRAWS:
        drawn = ARCHITECTURES[number // 2 % 3]
        expected += [(source, drawn) for source in sources(name, drawn, "random")]
    with ThreadPoolExecutor(2) as pool:
        for binary in pool.map(lambda each: compiled(*each), expected):
            assert binary.entries
            assert all(used.registers > 0 for used in binary.resources.values())
