"""Optimisations that can be removed from kernel text one by one: unrolling, the compiler's, multiply-adds, read-only loads, fast functions.

A build without all of them is pessimised; with all of them it is the text as shipped. Their order is that in which Komatsu et al. applied
theirs by hand to PTX: unrolling, common subexpressions, multiply-adds, loop-invariant code motion, roots and trigonometry. Common
subexpressions and invariants are a single optimisation here, because no driver's compiler can disable them separately.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

from msgspec import structs

from portatile import flat_plans
from portatile.dialect.places import quoted
from portatile.records import DeviceInfo, Launch, Plan, Source

RELAXED = "-cl-fast-relaxed-math"
"""The option of the builds with which the papers compare. It gives up accuracy, so it is not part of the difference that is explained."""

_UNROLL = re.compile(r"^[ \t]*#[ \t]*pragma[ \t]+unroll\b.*$", re.MULTILINE)
_LOOP = re.compile(r"^(?P<blank>[ \t]*)for(?=\s*\()|\bfor(?=\s*\()", re.MULTILINE)
_FAST = re.compile(r"\b(?:(native|half)_(\w+)|RSQRT_APPROX|(rsqrt))\s*\(")
_ROOT = "(1.0f / sqrt(x))"
_PRECISE = {  # the definitions of OpenCL C functions, where they differ from the function with the name after native_ or half_
    "rsqrt": ("x", _ROOT),
    "recip": ("x", "(1.0f / (x))"),
    "divide": ("x, y", "((x) / (y))"),
    "powr": ("x, y", "powr(x, y)"),
}
_MULTIPLY_ADD = "((a) * (b) + (c))"


@dataclass(frozen=True)
class Optimisation:
    """``name`` in tables, ``meaning`` in a sentence. ``without`` removes it from a text, for a device, or returns the text itself if
    unused.
    """

    name: str
    meaning: str
    without: Callable[[Source, DeviceInfo], Source]


def _rolled(source: Source, info: DeviceInfo) -> Source:
    """Asks for no loop to be unrolled; generated unrolled code stays. In macros and within lines the pragma is written as an operator."""

    def not_unrolled(match: re.Match[str]) -> str:
        alone = match["blank"] is not None and not text[: match.start()].endswith("\\\n")
        return f"#pragma unroll 1\n{match.group()}" if alone else f'{match["blank"] or ""}_Pragma("unroll 1") for'

    text = _UNROLL.sub("", source.text)
    return replace(source, text=_LOOP.sub(not_unrolled, text))


def _unfused(source: Source, info: DeviceInfo) -> Source:
    """Rounds a product before something is added to it, even where the text asks for a single rounding."""
    head = ["#pragma OPENCL FP_CONTRACT OFF"]
    head += [f"#define {name}(a, b, c) {_MULTIPLY_ADD}" for name in ("fma", "mad") if re.search(rf"\b{name}\s*\(", source.text)]
    return _headed(source, *head)


def _aliased(source: Source, info: DeviceInfo) -> Source:
    """Lets pointers alias, so that nothing is read through the read-only path, and a store may change what was loaded before."""
    return _headed(source, "#undef LDG", "#define LDG(p) (*(p))", "#undef restrict", "#define restrict")


def _precise(source: Source, info: DeviceInfo) -> Source:
    """Uses the language's functions in place of the device's own, and on NVIDIA's GPUs correctly rounded roots and divisions."""
    head = []
    for call in {match.group(): match for match in _FAST.finditer(source.text)}.values():
        kind, plain, _ = call.groups()
        name = f"{kind}_{plain}" if kind else call.group().rstrip("( \t")
        takes, gives = _PRECISE.get(plain if kind else "rsqrt", ("x", f"{plain}(x)"))
        head.append(f"#undef {name}\n#define {name}({takes}) {gives}" if name == "RSQRT_APPROX" else f"#define {name}({takes}) {gives}")
    if not head:
        return source
    options = ("-cl-fp32-correctly-rounded-divide-sqrt",) if info.nvidia else ()
    return replace(_headed(source, *sorted(set(head))), options=(*source.options, *options))


def _unoptimised(source: Source, info: DeviceInfo) -> Source:
    return replace(source, options=(*source.options, "-cl-opt-disable"))


def _unassembled(source: Source, info: DeviceInfo) -> Source:
    """Disables NVIDIA's assembler's optimisations only; if the compiler optimises nothing, neither does the assembler."""
    if not info.nvidia or "-cl-opt-disable" in source.options:
        return source
    return replace(source, options=(*source.options, "-cl-nv-opt-level=0"))


OPTIMISATIONS = (
    Optimisation("unrolling", "loops are unrolled, as the text asks or the compiler chooses", _rolled),
    Optimisation("compiler", "the compiler optimises: common subexpressions, loop invariants, registers, inlining", _unoptimised),
    Optimisation("multiply-add", "products and sums are one instruction", _unfused),
    Optimisation("assembler", "the assembler schedules and allocates registers", _unassembled),
    Optimisation("read-only", "pointers are declared restrict, and what nobody writes is read through the read-only path", _aliased),
    Optimisation("functions", "roots and trigonometry by the device's fast functions", _precise),
)


def offered(plan: Plan, info: DeviceInfo) -> tuple[Optimisation, ...]:
    """The optimisations that change anything in a plan's texts on a device."""
    return tuple(
        optimisation
        for optimisation in OPTIMISATIONS
        if any(optimisation.without(source, info) != source for source in flat_plans.sources(plan))
    )


def built_with(plan: Plan, names: Collection[str], info: DeviceInfo) -> Plan:
    """The plan with all optimisations removed but those in ``names``."""
    return _rebuilt(plan, {source: _weakened(source, names, info) for source in flat_plans.sources(plan)})


def with_options(plan: Plan, options: tuple[str, ...]) -> Plan:
    """The plan with compiler options added to those of each text."""
    replaced = {source: replace(source, options=(*source.options, *options)) for source in flat_plans.sources(plan)}
    return _rebuilt(plan, replaced)


def _rebuilt(plan: Plan, replaced: Mapping[Source, Source]) -> Plan:
    steps = (structs.replace(step, source=replaced[step.source]) for step in plan.steps if isinstance(step, Launch))
    return replace(plan, steps=tuple(steps))


def _weakened(source: Source, names: Collection[str], info: DeviceInfo) -> Source:
    for optimisation in OPTIMISATIONS:
        source = source if optimisation.name in names else optimisation.without(source, info)
    return source


def _headed(source: Source, *lines: str) -> Source:
    """Lines before a text, which keeps its own line numbers."""
    return replace(source, text="\n".join([*lines, f"#line 1 {quoted(source.file)}", source.text]))
