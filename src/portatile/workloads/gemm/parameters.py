"""``parameter`` declares a parameter of a form: name, values, meaning and rules; ``declaration`` tabulates those of a form."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from portatile.records import Value
from portatile.space.constraint import Constraint

_PARAMETER = "parameter"  # the key in a field's metadata

SHARES_K = "SPLIT_K == 1 or (SPLIT_K * 64 <= k and tiles * SPLIT_K <= 4 * compute_units)"
"""The rule for split k: each work-group keeps 64 steps of k or more, and the tiles alone would leave part of the device idle."""


@dataclass(frozen=True)
class FormParameter:
    """The declaration of one parameter of a form.

    - ``default``, ``values`` (those that a search tries), and ``meaning`` (a sentence for users).
    - ``when``: an expression over other parameters. Where it is false, the parameter has no effect: configurations leave it out, and rules
      read ``idle`` in its place.
    - ``must``: rules in words and as expressions. A kernel that breaks one would be wrong, so users' configurations must obey them, too.
    - ``tried``: expressions that narrow what a search tries. These and ``must`` may read facts of problem and device.
    - ``defines``: the kernel texts that receive the parameter as a macro. Other texts receive it through the template, or only the host
      reads it; configurations that differ only in a parameter of the host share one binary.
    - ``batched``: whether batched problems have the parameter.
    - ``later``: the parameter was added after configurations had been recorded; a configuration without it means its default.
    """

    name: str
    default: Value
    values: tuple[Value, ...]
    meaning: str
    when: str = ""
    idle: Value = 0
    must: tuple[tuple[str, str], ...] = ()
    tried: tuple[str, ...] = ()
    defines: tuple[str, ...] = ()
    batched: bool = True
    later: bool = False


def parameter(
    default: Value,
    values: tuple[Value, ...],
    meaning: str,
    *,
    when: str = "",
    idle: Value | None = None,
    must: Mapping[str, str] | None = None,
    tried: tuple[str, ...] = (),
    defines: tuple[str, ...] = (),
    batched: bool = True,
    later: bool = False,
) -> Any:
    """A field of a ``Point``; see ``FormParameter``. ``must`` maps each rule in words to its expression."""
    rules = tuple((must or {}).items())
    idle_value = idle if idle is not None else default if default in values else values[0]
    definition = FormParameter("", default, values, meaning, when, idle_value, rules, tried, defines, batched, later)
    return field(default=default, metadata={_PARAMETER: definition})


@dataclass(frozen=True)
class Declaration:
    """The parameters of a form in the order of their fields, and tables made of them once.

    ``conditions``: the ``when`` of each parameter that has one. ``rules``: each ``must`` in words and as a constraint, and whether it reads
    parameters only, no facts.
    """

    parameters: Mapping[str, FormParameter]
    defaults: Mapping[str, Value]
    conditions: Mapping[str, Constraint]
    rules: tuple[tuple[str, Constraint, bool], ...]

    def acts(self, name: str, values: Mapping[str, Value]) -> bool:
        """Whether a parameter has an effect beside these values of the others."""
        return name not in self.conditions or self.conditions[name].check(values)

    def constraints(self, form: str, batched: bool) -> Iterator[Constraint]:
        """Every rule (``must`` and ``tried``) of the form called ``form``, for single or batched problems."""
        for definition in self.parameters.values():
            if definition.batched or not batched:
                for words, rule in (*definition.must, *(("", rule) for rule in definition.tried)):
                    yield replace(Constraint.of(f"FORM != {form!r} or ({rule})"), words=words)


_DECLARATIONS: dict[type[Any], Declaration] = {}


def declaration(form: type[Any]) -> Declaration:
    """The declaration of a form, a dataclass whose fields were made by ``parameter``."""
    if form not in _DECLARATIONS:
        parameters = {}
        for one in fields(form):
            definition: FormParameter = one.metadata[_PARAMETER]
            parameters[one.name] = replace(definition, name=one.name)
        rules = [(words, Constraint.of(rule)) for definition in parameters.values() for words, rule in definition.must]
        _DECLARATIONS[form] = Declaration(
            parameters,
            {name: definition.default for name, definition in parameters.items()},
            {name: Constraint.of(definition.when) for name, definition in parameters.items() if definition.when},
            tuple((words, rule, set(rule.reads) <= set(parameters)) for words, rule in rules),
        )
    return _DECLARATIONS[form]
