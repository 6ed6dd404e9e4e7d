"""Instructions that NVIDIA's OpenCL C does not compile: comments in its PTX, which become instructions."""

from __future__ import annotations

import re
from dataclasses import replace
from types import SimpleNamespace

import pytest

from portatile import dialect, workloads
from portatile.capabilities import of_nvidia, with_warp_groups
from portatile.device.opencl import sm90a
from portatile.device.opencl.info import _capabilities
from portatile.records import Launch
from portatile.workloads.gemm.forms.hopper import point as hopper
from support.devices import on_paper

OPENCL = replace(on_paper("gpu"), backend="opencl", capabilities=with_warp_groups(of_nvidia("sm_90"), "sm_90"))
GIVEN = """.version {version}
.target sm_90, texmode_independent
.address_size 64
.entry gemm(
\t.param .u32 gemm_param_0
)
.reqntid 384, 1, 1
{{
\t// inline asm
\t//portatile: wgmma.fence.sync.aligned;
\t// inline asm
\tret;
}}
"""


@pytest.mark.parametrize(("version", "expected"), [("7.8", "8.6"), ("8.6", "8.6"), ("9.0", "9.0")])
def test_comments_become_instructions_of_sm_90a(version: str, expected: str) -> None:
    """Strides of tensor maps count bytes since version 8.5; registers pass between sub-groups where one group is enough."""
    lines = sm90a.instructions(GIVEN.format(version=version)).splitlines()
    assert lines[:2] == [f".version {expected}", ".target sm_90a, texmode_independent"]
    assert lines[lines.index(".reqntid 384, 1, 1") + 1] == ".minnctapersm 1"
    assert "\twgmma.fence.sync.aligned;" in lines
    assert "// inline asm" in lines[lines.index("{") + 1]


def test_parameters_are_found_by_their_place() -> None:
    maps = ",\n".join(f"\t.param .align 128 .b8 gemm_param_{place}[128]" for place in (1, 2))
    text = GIVEN.format(version="9.0").replace("gemm_param_0\n", f"gemm_param_0,\n{maps}\n")
    text = text.replace("wgmma.fence.sync.aligned;", "parameter 1 %rd7;")
    assert "\tcvta.param.u64 %rd7, gemm_param_2;" in sm90a.instructions(text).splitlines()


@pytest.mark.parametrize(("driver", "takes"), [("580.159.04", True), ("570.86", True), ("550.54", False), ("unknown", False)])
def test_drivers_that_are_too_old_for_the_text_have_no_warp_groups(driver: str, takes: bool) -> None:
    device = SimpleNamespace(driver_version=driver, local_mem_size=48 << 10)
    found = _capabilities(device, {"cl_nv_device_attribute_query"}, "sm_90", None)
    assert (found.warp_groups, found.tensor_maps, found.clusters) == (takes, takes, False)


def test_other_texts_stay_as_they_are() -> None:
    text = GIVEN.format(version="7.8").replace(sm90a.MARK, "// ")
    assert sm90a.instructions(text) == text


def test_only_texts_for_warp_groups_have_the_header() -> None:
    assert sm90a.MARK not in dialect.opencl("__kernel void f(void) { }", "f.cl")


@pytest.mark.parametrize(("maps", "groups"), [(0, 1), (1, 2), (1, 3)])
def test_a_product_by_warp_groups_leaves_no_such_instruction_to_the_compiler(maps: int, groups: int) -> None:
    workload = workloads.get("gemm")
    case = workload.problem(dict.fromkeys("mnk", 1000), "bfloat16")
    (step,) = workload.plan(case, replace(hopper.tile(64 * groups, 192, 3), MAPS=maps).config(), OPENCL).steps
    assert isinstance(step, Launch)
    text = dialect.opencl(step.source.text, step.source.file)
    assembled = re.findall(r"asm(?: volatile)?\(([^;]*?)\"([^\"]*)\"", text)
    newer = [before for before, words in assembled if re.search(r"wgmma\.|mbarrier\.|tensor|setmaxnreg|stmatrix|fence\.", words)]
    assert sm90a.MARK in text
    assert len(newer) > 10
    assert all("PORTATILE_LATER" in before for before in newer)
    used = set(re.findall(r"\b(?:mbarrier|tensor|wgmma|warp_registers|store_fragment)\w*(?=\()", step.source.text))
    assert used
    assert all(re.search(rf"\b{name}\(", text.replace(step.source.text, "")) for name in used)
