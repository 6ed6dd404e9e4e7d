"""ParameterSpace: named values and the constraints between them, without listing more than is asked for."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from portatile.errors import SpaceError, UnknownNameError
from portatile.records import Config, Value, canonical

Predicate = Callable[..., Any]


@dataclass(frozen=True)
class Constraint:
    """A predicate and the names of parameters and facts that it reads."""

    reads: tuple[str, ...]
    holds: Predicate
    text: str

    @classmethod
    def of(cls, rule: Predicate | str) -> Constraint:
        """From a callable, whose argument names say what it reads, or from a Python expression."""
        if isinstance(rule, str):
            try:
                code = compile(rule, "<constraint>", "eval")
            except SyntaxError as error:
                raise SpaceError(f"constraint {rule!r} is not an expression: {error.msg}") from None
            names = tuple(n for n in code.co_names if n not in _BUILTINS)
            return cls(names, lambda **values: eval(code, {"__builtins__": _BUILTINS}, values), rule)
        names = tuple(inspect.signature(rule).parameters)
        return cls(names, rule, f"{getattr(rule, '__name__', 'constraint')}({', '.join(names)})")

    def check(self, values: Mapping[str, Value]) -> bool:
        """Whether the constraint holds for ``values``, which binds at least every name it reads."""
        try:
            return bool(self.holds(**{name: values[name] for name in self.reads}))
        except ZeroDivisionError:
            return False
        except Exception as error:
            raise SpaceError(f"constraint {self.text} cannot be evaluated: {type(error).__name__}: {error}") from error


_BUILTINS: dict[str, Any] = {"min": min, "max": max, "abs": abs, "int": int, "float": float, "round": round, "len": len, "sum": sum}
_BUILTINS |= {"True": True, "False": False, "all": all, "any": any}


class ParameterSpace:
    """The legal configurations of a computation.

    ``parameters`` maps a name to its values (int, float, bool or str). A constraint is a callable whose argument names
    are parameters or ``facts``, or an expression over them; it is checked as soon as its last name is bound.
    """

    def __init__(
        self,
        parameters: Mapping[str, Sequence[Value]],
        constraints: Iterable[Predicate | str] = (),
        facts: Mapping[str, Value] | None = None,
    ) -> None:
        self.parameters: dict[str, tuple[Value, ...]] = {name: tuple(values) for name, values in parameters.items()}
        self.facts = dict(facts or {})
        for name, values in self.parameters.items():
            if not values:
                raise SpaceError(f"parameter {name!r} has no values")
            if len(set(map(canonical, values))) != len(values):
                raise SpaceError(f"parameter {name!r} lists a value twice: {values}")
        self.constraints = tuple(Constraint.of(rule) for rule in constraints)
        self._check_names()
        self._configs: tuple[dict[str, Value], ...] | None = None

    @classmethod
    def from_configs(cls, configs: Sequence[Config]) -> ParameterSpace:
        """The space that holds exactly ``configs``, as a recorded space does; all bind the same names."""
        if not configs:
            raise SpaceError("a space needs at least one configuration")
        names = list(configs[0])
        space = cls({name: tuple(dict.fromkeys(config[name] for config in configs)) for name in names})
        space._configs = tuple(dict(config) for config in configs)
        return space

    @property
    def size(self) -> int:
        """The number of combinations before constraints."""
        return math.prod(len(values) for values in self.parameters.values())

    def count(self) -> int:
        """The number of legal configurations; enumerates the space."""
        return sum(1 for _ in self)

    def violated(self, config: Config) -> str | None:
        """Why ``config`` is not legal, or None."""
        if set(config) != set(self.parameters):
            missing, extra = set(self.parameters) - set(config), set(config) - set(self.parameters)
            if extra:
                raise UnknownNameError("parameter", sorted(extra)[0], self.parameters)
            return f"no value for {', '.join(sorted(missing))}"
        for name, value in config.items():
            if value not in self.parameters[name]:
                return f"{name}={value!r} is not one of {self.parameters[name]}"
        if self._configs is not None:
            return None if canonical(config) in self._keys else "not among the recorded configurations"
        values = {**self.facts, **config}
        return next((f"violates {c.text}" for c in self.constraints if not c.check(values)), None)

    def __contains__(self, config: object) -> bool:
        return isinstance(config, Mapping) and set(config) == set(self.parameters) and self.violated(config) is None

    def __iter__(self) -> Iterator[dict[str, Value]]:
        if self._configs is not None:
            yield from (dict(config) for config in self._configs)
            return
        yield from self._extend({}, 0)

    def sample(self, rng: np.random.Generator) -> dict[str, Value]:
        """One legal configuration, uniformly; raises SpaceError when there is none."""
        if self._configs is not None:
            return dict(self._configs[int(rng.integers(len(self._configs)))])
        names = list(self.parameters)
        for _ in range(2000):
            config: dict[str, Value] = {name: self.parameters[name][int(rng.integers(len(self.parameters[name])))] for name in names}
            if all(c.check({**self.facts, **config}) for c in self.constraints):
                return config
        if not self._listed:
            raise SpaceError(self._empty_message())
        return dict(self._listed[int(rng.integers(len(self._listed)))])

    def neighbours(self, config: Config, *, adjacent: bool = False) -> list[dict[str, Value]]:
        """The legal configurations that differ from ``config`` in one parameter; with ``adjacent``, by one place in its values."""
        found = []
        for name, values in self.parameters.items():
            here = values.index(config[name])
            for place, value in enumerate(values):
                if place == here or (adjacent and abs(place - here) != 1):
                    continue
                other = {**config, name: value}
                if other in self:
                    found.append(other)
        return found

    @cached_property
    def _keys(self) -> frozenset[str]:
        return frozenset(canonical(config) for config in self._configs or ())

    @cached_property
    def _listed(self) -> tuple[dict[str, Value], ...]:
        return tuple(self)

    @cached_property
    def _stages(self) -> tuple[tuple[Constraint, ...], ...]:
        """The constraints that become checkable when the parameter at each depth is bound."""
        bound = set(self.facts)
        left = list(self.constraints)
        stages = []
        for name in self.parameters:
            bound.add(name)
            ready = tuple(c for c in left if set(c.reads) <= bound)
            left = [c for c in left if c not in ready]
            stages.append(ready)
        return tuple(stages)

    def _extend(self, partial: dict[str, Value], depth: int) -> Iterator[dict[str, Value]]:
        if depth == len(self.parameters):
            yield dict(partial)
            return
        name = list(self.parameters)[depth]
        for value in self.parameters[name]:
            partial[name] = value
            values = {**self.facts, **partial}
            if all(c.check(values) for c in self._stages[depth]):
                yield from self._extend(partial, depth + 1)
        del partial[name]

    def _check_names(self) -> None:
        known = set(self.parameters) | set(self.facts)
        for constraint in self.constraints:
            for name in constraint.reads:
                if name not in known:
                    raise UnknownNameError(f"name in constraint {constraint.text!r}:", name, known)

    def _empty_message(self) -> str:
        return f"no configuration of the {self.size} combinations satisfies all constraints: {'; '.join(c.text for c in self.constraints)}"
