"""The legal configurations of a GEMM: the parameters and rules of all forms in one space, where FORM selects a form."""

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

# The order in which a configuration is built. A constraint is checked as soon as the last parameter that it reads is bound, so parameters
# that decide much come first, and a switch that ties sizes together comes before them or soon after. Then legal configurations can be
# counted in few states, and random ones seldom reach a dead end. Parameters that are not named here follow in the order of declaration.
_EARLY = (
    *("MMA", "MMA_SHAPE", "LDG", "SHUFFLE", "TXC", "TXC_OF", "VIEW_A", "VIEW_B", "SM", "SM_OF", "SCALARS", "JOIN", "GROUPS"),
    *("VL", "TR", "TC", "TRR", "TCR", "TBR", "TBC", "LANES", "TURN", "KEEP", "KB", "UNROLL", "KG", "PAD", "STAGES", "DOUBLE", "TAIL"),
    *("PACK_A", "PACK_B", "SPLIT_K", "RASTER", "MAD"),
)


def build(problem: Problem, device: DeviceInfo, batch: int | None = None) -> ParameterSpace:
    """The space of a problem on a device, or of a ``batch`` of such problems.

    Besides the facts of problem, device and forms, rules may read ``tiles`` (the number of 128 x 128 tiles of C), ``batch`` and
    ``batched``.
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
    """The parameters of all forms together: their values; the condition under which each is present, and its value otherwise; the rules;
    and the defaults of parameters that were added later.
    """

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
    """The values of all lists without repetition: numbers in ascending order, texts in the order in which they first appear."""
    merged = dict.fromkeys(value for values in lists for value in values)
    return tuple(merged) if any(isinstance(value, str) for value in merged) else tuple(sorted(merged))
