"""A reader of Clang's assembly for AMD GPUs: its kernels, their resources, and their instructions by family.

Kernels and their arguments are in the metadata at the end, in the layout of LLVM's AMDGPU user guide; spills and occupancy are in comments
between the instructions. Counts are static: an instruction in a loop counts once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from portatile.records import ArgKind, Entry, Parameter, Resources

_METADATA = re.compile(r"\.amdgpu_metadata\n(.*?)\.end_amdgpu_metadata", re.DOTALL)
_FUNCTION = re.compile(r"^([\w$.]+):\s*; @", re.MULTILINE)
_SPILL = re.compile(r"; (\d+)-byte Folded (Spill|Reload)")
_OCCUPANCY = re.compile(r"^; Occupancy: (\d+)", re.MULTILINE)
_RELOCATED = re.compile(r"\b([A-Za-z_][\w$.]*)@(?:gotpcrel32|rel32)@lo")
_DEFINED = re.compile(r"^([A-Za-z_][\w$.]*):", re.MULTILINE)
_INSTRUCTION = re.compile(r"^\t((?:v|s|ds|global|flat|buffer|scratch|image|exp|tbuffer|lds)_\w+)", re.MULTILINE)
_FORM = re.compile(r"_(?:e32|e64|sdwa|dpp|dpp8|e64_dpp)$")
_KINDS: dict[str, ArgKind] = {"global_buffer": "buffer", "dynamic_shared_pointer": "local", "image": "image"}

_FAMILIES = (  # the first match decides
    ("matrix", r"v_(mfma|smfmac|wmma|swmmac)"),
    ("special", r"v_(rcp|rsq|sqrt|sin|cos|exp|log|div_fixup|div_fmas|div_scale|trig_preop)_"),
    ("atomic", r"(global|flat|buffer|ds)_(atomic|add|sub|inc|dec|min|max|and|or|xor|cmpst)\w*"),
    ("private", r"scratch_|buffer_(load|store)"),
    ("texture", r"image_"),
    ("local load", r"ds_(read|load)"),
    ("local store", r"ds_(write|store)"),
    ("sub-group", r"ds_(b?permute|swizzle)|v_(readlane|readfirstlane|writelane|permlane)"),
    ("load", r"(global|flat)_load|s_(buffer_)?load"),
    ("store", r"(global|flat)_store"),
    ("barrier", r"s_barrier|buffer_(wb|inv|gl)|s_dcache"),
    ("wait", r"s_(waitcnt|wait_|sleep|nop|delay)"),
    ("compare", r"[vs]_cmpx?_|[vs]_cselect|v_cndmask|s_bitcmp"),
    ("convert", r"v_cvt_"),
    ("move", r"[vs]_(mov|cmov|accvgpr|swap|movrel)"),
    ("control", r"s_(branch|cbranch|endpgm|setpc|swappc|getpc|call|clause|setreg|getreg|sethalt|code_end|inst_prefetch|set_gpr)"),
    ("float64", r"v_\w+_f64"),
    ("float16", r"v_\w+_(f16|bf16)"),
    ("float32", r"v_\w+_f32|v_dual_(fmac|fmaak|fmamk|mul|add|sub|max|min)\w*"),
)
_FAMILY = tuple((family, re.compile(pattern)) for family, pattern in _FAMILIES)


@dataclass(frozen=True)
class Isa:
    """One instruction: the function that contains it and its name without the encoding, such as ``v_fma_f64``."""

    function: str
    kind: str

    @property
    def family(self) -> str:
        """The unit that executes the instruction; ``integer`` for all arithmetic that is not floating-point."""
        return next((family for family, pattern in _FAMILY if pattern.match(self.kind)), "integer")


def instructions(assembly: str) -> Iterator[Isa]:
    """Every instruction, in order."""
    for name, body in _functions(assembly):
        for match in _INSTRUCTION.finditer(body):
            yield Isa(name, _FORM.sub("", match.group(1)))


def undefined(assembly: str) -> tuple[str, ...]:
    """The functions that are called but not defined."""
    return tuple(sorted(set(_RELOCATED.findall(assembly)) - set(_DEFINED.findall(assembly))))


def entries(assembly: str) -> tuple[Entry, ...]:
    """The kernels, with the arguments that the metadata list."""
    listed = []
    for kernel in _kernels(assembly):
        arguments = [_fields(block) for block in _blocks(kernel.partition("    .args:\n")[2], 6)]
        parameters = tuple(_parameter(fields) for fields in arguments if not fields.get("value_kind", "").startswith("hidden"))
        group = re.search(r"\.reqd_workgroup_size:\s*\n\s+- (\d+)\s*\n\s+- (\d+)\s*\n\s+- (\d+)", kernel)
        name = _named(kernel, "name")
        listed.append(Entry(name, name, parameters, (int(group[1]), int(group[2]), int(group[3])) if group else None))
    return tuple(listed)


def resources(assembly: str) -> dict[str, Resources]:
    """The resources of each kernel; its local memory does not include what a launch adds."""
    bodies = dict(_functions(assembly))
    by_kernel = {}
    for kernel in _kernels(assembly):
        name = _named(kernel, "name")
        spills = {"Spill": 0, "Reload": 0}
        for nbytes, direction in _SPILL.findall(bodies.get(name, "")):
            spills[direction] += int(nbytes)
        occupancy = _OCCUPANCY.search(bodies.get(name, ""))
        by_kernel[name] = Resources(
            registers=int(_named(kernel, "vgpr_count")),
            spill_stores=spills["Spill"],
            spill_loads=spills["Reload"],
            local_memory=int(_named(kernel, "group_segment_fixed_size")),
            stack=int(_named(kernel, "private_segment_fixed_size")),
            scalar_registers=int(_named(kernel, "sgpr_count")),
            occupancy=int(occupancy.group(1)) if occupancy else -1,
        )
    return by_kernel


def _functions(assembly: str) -> Iterator[tuple[str, str]]:
    """Names and texts of functions; a text includes the comments that follow the function."""
    starts = list(_FUNCTION.finditer(assembly))
    for match, following in zip(starts, [*starts[1:], None], strict=True):
        yield match.group(1), assembly[match.end() : following.start() if following else len(assembly)]


def _kernels(assembly: str) -> list[str]:
    """The metadata of each kernel."""
    match = _METADATA.search(assembly)
    return [] if match is None else _blocks(match.group(1).partition("amdhsa.kernels:\n")[2], 2)


def _blocks(text: str, indent: int) -> list[str]:
    """The items of a list that is indented by ``indent`` spaces, up to its end; the dash of each item is replaced by a space."""
    blocks: list[list[str]] = []
    for line in text.splitlines(keepends=True):
        if line.startswith(f"{' ' * indent}- "):
            blocks.append([f"{' ' * (indent + 2)}{line[indent + 2 :]}"])
        elif line.startswith(" " * (indent + 1)) and blocks:
            blocks[-1].append(line)
        else:
            break
    return ["".join(block) for block in blocks]


def _fields(block: str) -> dict[str, str]:
    return {
        name: value.strip().removeprefix("!str ").strip("'\"")
        for name, value in re.findall(r"^\s+\.(\w+):[ \t]*(.*)$", block, re.MULTILINE)
    }


def _named(kernel: str, name: str) -> str:
    """A field of the kernel itself, not of its arguments."""
    match = re.search(rf"^    \.{name}:\s*(\S+)", kernel, re.MULTILINE)
    return match.group(1).strip("'\"") if match else "0"


def _parameter(fields: dict[str, str]) -> Parameter:
    kind = _KINDS.get(fields["value_kind"], "scalar")
    return Parameter(fields.get("name", ""), kind, fields.get("type_name", ""))
