"""The legal configurations of a GEMM: the forms' parameters and rules, joined to one space where FORM says which are there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, partial

from portatile.records import DeviceInfo, Problem, Value
from portatile.space import ParameterSpace
from portatile.space.constraint import Constraint
from portatile.workloads.gemm import reals
from portatile.workloads.gemm.forms import canonical, forms, parameters
from portatile.workloads.gemm.parameters import FormParameter, declaration
from portatile.workloads.gemm.reals import computed

# The order in which a configuration is built up: what decides most comes first, and a constraint is checked as soon as the last name it
# reads is bound. So a switch that ties sizes together comes before them or soon after: then legal configurations can be counted in few
# states, and random ones seldom end where nothing is legal. Parameters that are not named here follow as their forms declare them.
_EARLY = (
    *("MMA", "MMA_SHAPE", "LDG", "SHUFFLE", "TXC", "TXC_OF", "VIEW_A", "VIEW_B", "SM", "SM_OF", "SCALARS", "JOIN", "GROUPS"),
    *("VL", "TR", "TC", "TRR", "TCR", "TBR", "TBC", "LANES", "TURN", "KEEP", "KB", "UNROLL", "KG", "PAD", "STAGES", "DOUBLE", "TAIL"),
    *("PACK_A", "PACK_B", "SPLIT_K", "RASTER", "MAD"),
)


def build(problem: Problem, device: DeviceInfo, batch: int | None = None) -> ParameterSpace:
    """The space for a problem on a device, or for a ``batch`` of so many of them.

    Facts beside those of problem, device and forms: ``tiles``, how many tiles of 128 x 128 there are; ``batch``; ``batched``.
    """
    batched = batch is not None
    count = 1 if batch is None else batch
    original, problem = problem, computed(problem)
    facts: dict[str, Value] = {**problem.facts(), **reals.facts(problem), **device.facts(), "batch": count, "batched": batched}
    facts["tiles"] = -(-problem.sizes["m"] // 128) * -(-problem.sizes["n"] // 128) * count
    for form in forms().values():
        facts |= form.facts(form.point.view(original), device)
    if batched:
        facts |= {
            name: next(iter(definitions.values())).default for name, definitions in parameters().items() if not _there(definitions, batched)
        }
    union = _union(batched)
    return ParameterSpace(union.values, union.rules, facts, union.later, union.there, partial(canonical, batched=batched))


def _there(definitions: Mapping[str, FormParameter], batched: bool) -> bool:
    return any(one.batched or not batched for one in definitions.values())


@dataclass(frozen=True)
class _Union:
    """The parameters of all forms: values; when each is there, and its value elsewhere; rules; usual values of later parameters."""

    values: Mapping[str, tuple[Value, ...]]
    there: Mapping[str, tuple[str, Value]]
    rules: tuple[str | Constraint, ...]
    later: Mapping[str, Value]


@cache
def _union(batched: bool) -> _Union:
    names = {name: definitions for name, definitions in parameters().items() if _there(definitions, batched)}
    order = sorted(names, key=lambda name: _EARLY.index(name) if name in _EARLY else len(_EARLY))
    values: dict[str, tuple[Value, ...]] = {"FORM": tuple(forms())}
    there: dict[str, tuple[str, Value]] = {}
    rules: list[str | Constraint] = []
    later: dict[str, Value] = {}
    for name in order:
        definitions = names[name]
        values[name] = _merged([one.values for one in definitions.values()])
        if len(definitions) < len(forms()) or any(one.when for one in definitions.values()):
            condition = " or ".join(f"(FORM == {form!r}{f' and {one.when}' if one.when else ''})" for form, one in definitions.items())
            there[name] = condition, next(iter(definitions.values())).idle
        for form, one in definitions.items():
            if set(one.values) != set(values[name]):
                condition = f" or not ({one.when})" if one.when else ""
                rules.append(f"FORM != {form!r}{condition} or {name} in {one.values}")
            if one.later:
                later[name] = one.default
    for form, module in forms().items():
        rules += declaration(module.point).constraints(form, batched)
    return _Union(values, there, tuple(rules), later)


def _merged(lists: list[tuple[Value, ...]]) -> tuple[Value, ...]:
    """The values of all lists, numbers in their order, texts as they are first named."""
    merged = dict.fromkeys(value for values in lists for value in values)
    return tuple(merged) if any(isinstance(value, str) for value in merged) else tuple(sorted(merged))
