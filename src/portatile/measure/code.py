"""The compiled code of a plan: instructions by family and kind, wide loads, fused multiply-adds, registers and spills."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from portatile import cache, device, flat_plans, program
from portatile.device.target import Target
from portatile.errors import PortatileError
from portatile.records import DeviceInfo, Plan, Resources, canonical, digest

_FUSED = re.compile(r"fma\.|mad\.f|vf(n?madd|n?msub|maddsub)|v_(fma|fmac|mad)_|v_pk_fma|v_dual_fm")
_ORIGIN = re.compile(r"//.*|^\s*\.(?:loc|file)\b.*", re.MULTILINE)
_SPILL = re.compile(r"(ld|st)\.local|(load|store)\.stack|scratch_")
_READ_ONLY = re.compile(r"ld\.global\.nc|ldu\.|s_load|tex")
_WIDE = re.compile(r"ld\.\S*v([248])|load\.[xyz]mm|_load_dwordx\d|_load_b(64|96|128)|ds_read_b(64|128)")


@dataclass(frozen=True)
class Code:
    """Static counts: an instruction in a loop counts once. ``registers`` and ``spills`` (bytes) are those of the kernel that has most; None
    if unknown.

    ``text``: a hash of all instructions with their operands and of the options, equal for equal code; empty if the compiler prints none.
    ``loads`` are all loads; of these, ``wide`` are vectors and ``read_only`` use the read-only path. ``private`` are accesses to spilled
    registers and private arrays; ``fused`` are fused multiply-adds.
    """

    families: Mapping[str, int] = field(default_factory=dict)
    kinds: Mapping[str, int] = field(default_factory=dict)
    registers: int | None = None
    spills: int | None = None
    text: str = ""

    @property
    def total(self) -> int:
        """The number of instructions."""
        return sum(self.families.values())

    @property
    def fused(self) -> int:
        """Fused multiply-adds."""
        return self._count(_FUSED)

    @property
    def loads(self) -> int:
        """The number of loads from all memories, including private arrays if the compiler distinguishes them."""
        return sum(count for family, count in self.families.items() if "load" in family)

    @property
    def wide(self) -> int:
        """Loads of two elements or more; on processors, of a vector register."""
        return self._count(_WIDE)

    @property
    def read_only(self) -> int:
        """Loads through a GPU's read-only path."""
        return self._count(_READ_ONLY)

    @property
    def private(self) -> int:
        """Loads and stores of spilled registers and private arrays."""
        return self._count(_SPILL)

    def _count(self, pattern: re.Pattern[str]) -> int:
        return sum(count for kind, count in self.kinds.items() if pattern.match(kind))


def of(plan: Plan, info: DeviceInfo) -> Code:
    """The code of all texts of a flat plan; counts are empty if the compiler prints none."""
    families: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    used: list[Resources] = []
    texts: list[str] = []
    target = assembly_target(info)
    for source in flat_plans.sources(plan):
        built = program.build(source, target, cache.default())
        used += built.resources.values()
        try:
            text = target.assembly(built)
        except PortatileError:  # the driver prints no code
            continue
        texts += [_plain(text), canonical(source.options)]
        instructions = list(target.instructions(text))
        families.update(instruction.family for instruction in instructions)
        kinds.update(instruction.kind for instruction in instructions)
    registers = max((resources.registers for resources in used if resources.registers >= 0), default=None)
    spills = max((resources.spill_stores + resources.spill_loads for resources in used if resources.spill_stores >= 0), default=None)
    return Code(dict(families.most_common()), dict(kinds.most_common()), registers, spills, digest(*texts) if texts else "")


def assembly_target(info: DeviceInfo) -> Target:
    """The compiler that prints the code for a device."""
    return device.target(info, device.backends()[info.backend].assembly)


def _plain(text: str) -> str:
    """Assembly without references to its origin: comments, source lines, debug sections."""
    return _ORIGIN.sub("", text.partition("\n\t.section")[0])
