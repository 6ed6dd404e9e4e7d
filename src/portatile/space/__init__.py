"""ParameterSpace: named values and the constraints between them, without listing more than is asked for."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice

import numpy as np

from portatile.errors import SpaceError, UnknownNameError
from portatile.records import Config, Value, canonical
from portatile.space.constraint import Constraint, Predicate
from portatile.space.counting import Counting, TooManyStatesError
from portatile.space.deadline import Steps
from portatile.space.effort import Effort
from portatile.space.rules import Rules

_USUAL = 0.8  # of the tries take the value that a later parameter has in earlier configurations


class ParameterSpace:
    """The legal configurations of a computation.

    ``parameters`` maps a name to its values (int, float, bool or str). A constraint is a callable whose argument names
    are parameters or ``facts``, or an expression over them; it is checked as soon as its last name is bound. ``absent`` are
    the values of parameters that a configuration recorded before they were there does not name. ``effort`` says how long each way of
    finding legal ones is tried.
    """

    def __init__(
        self,
        parameters: Mapping[str, Sequence[Value]],
        constraints: Iterable[Predicate | str] = (),
        facts: Mapping[str, Value] | None = None,
        absent: Mapping[str, Value] | None = None,
        effort: Effort | None = None,
    ) -> None:
        self.parameters: dict[str, tuple[Value, ...]] = {name: tuple(values) for name, values in parameters.items()}
        self.facts = dict(facts or {})
        self._effort = effort or Effort()
        self.absent = {name: value for name, value in (absent or {}).items() if name in self.parameters}
        for name, values in self.parameters.items():
            if not values:
                raise SpaceError(f"parameter {name!r} has no values")
            if len(set(map(canonical, values))) != len(values):
                raise SpaceError(f"parameter {name!r} lists a value twice: {values}")
        self.constraints = tuple(Constraint.of(rule, self.parameters.keys() | self.facts.keys()) for rule in constraints)
        self._check_names()
        self._rules = Rules(self.parameters, self.facts, self.constraints)
        self._configs: tuple[dict[str, Value], ...] | None = None
        self._counted: dict[int, Counting | None] = {}

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
    def recorded(self) -> bool:
        """Whether the space holds a list of configurations rather than rules."""
        return self._configs is not None

    @property
    def size(self) -> int:
        """The number of combinations before constraints."""
        return math.prod(len(values) for values in self.parameters.values())

    def count(self) -> int:
        """The number of legal configurations, counted without listing them where constraints tie few parameters together."""
        if self._configs is not None:
            return len(self._configs)
        counting = self._counting(self._effort.states)
        return sum(1 for _ in self) if counting is None else counting.total

    def complete(self, config: Config) -> Config:
        """``config`` with the parameters that it cannot name because it was recorded before they were there; in the order of the space."""
        if all(name in config for name in self.absent):
            return config
        full = {**self.absent, **config}
        return {name: full.pop(name) for name in self.parameters if name in full} | full

    def violated(self, config: Config) -> str | None:
        """Why ``config`` is not legal, or None."""
        config = self.complete(config)
        if set(config) != set(self.parameters):
            missing, extra = set(self.parameters) - set(config), set(config) - set(self.parameters)
            if extra:
                raise UnknownNameError("parameter", sorted(extra)[0], self.parameters)
            return f"no value for {', '.join(sorted(missing))}"
        for name, value in config.items():
            if not any(value == known and type(value) is type(known) for known in self.parameters[name]):
                return f"{name}={value!r} is not one of {self.parameters[name]}"
        if self._configs is not None:
            return None if canonical(config) in self._keys else "not among the recorded configurations"
        values = {**self.facts, **config}
        return next((f"violates {c.text}" for c in self.constraints if not c.check(values)), None)

    def __contains__(self, config: object) -> bool:
        return isinstance(config, Mapping) and set(self.complete(config)) == set(self.parameters) and self.violated(config) is None

    def __iter__(self) -> Iterator[dict[str, Value]]:
        if self._configs is not None:
            yield from (dict(config) for config in self._configs)
            return
        if (counting := self._counting(self._effort.few_states)) is not None:
            yield from counting.listed()
        elif self._rules.open is not None:
            yield from self._extend(dict(self.facts), 0, self._rules.open, _Walk())

    def sample(self, rng: np.random.Generator) -> dict[str, Value]:
        """One legal configuration; raises SpaceError when there is none.

        Uniformly where legal combinations are common or can be counted. Elsewhere one of some random descents through the
        parameters is kept, by the number of choices that each had: this leans to where dead ends are few. Where all of them end dead,
        a search in random order goes back at dead ends, and leaves out what the bounds of the parameters rule out.
        """
        if self._configs is not None:
            return dict(self._configs[int(rng.integers(len(self._configs)))])
        if self._common:
            while True:
                config = self._draw(rng)
                if self._legal(config):
                    return config
        if (counting := self._counting(self._effort.states)) is not None:
            if not counting.total:
                raise SpaceError(self._empty_message())
            return counting.draw(rng)
        descents = list(islice(filter(None, (self._descend(rng) for _ in range(self._effort.descents))), self._effort.kept))
        if descents:
            weights = np.exp(np.array([weight for _, weight in descents]) - max(weight for _, weight in descents))
            return descents[int(rng.choice(len(descents), p=weights / weights.sum()))][0]
        walked = self._extend(dict(self.facts), 0, self._rules.open, _Walk(rng)) if self._rules.open is not None else iter(())
        if (found := next(walked, None)) is None:
            raise SpaceError(self._empty_message())
        return found

    def scatter(self, rng: np.random.Generator, count: int) -> list[dict[str, Value]]:
        """Some ``count`` legal configurations, repetitions included, for a search that needs many and no exact odds.

        In a space too sparse to draw from and too large to be counted at once, each costs one random descent, and some may be missing.
        """
        if self.recorded or self._common or self._counting(self._effort.few_states) is not None:
            return [self.sample(rng) for _ in range(count)]
        descents = (self._descend(rng) for _ in range(4 * count))
        return [config for config, _ in islice(filter(None, descents), count)] or [self.sample(rng)]

    def neighbours(self, config: Config, *, adjacent: bool = False) -> list[dict[str, Value]]:
        """The legal configurations that differ from ``config`` in one parameter; with ``adjacent``, by one place in its values."""
        found = []
        by_rules = self._configs is None and self.violated(config) is None  # then only rules that read what changed can break
        bound = {**self.facts, **config}
        for name, values in self.parameters.items():
            here = values.index(config[name])
            for place, value in enumerate(values):
                if place == here or (adjacent and abs(place - here) != 1):
                    continue
                other = {**config, name: value}
                if all(rule.check({**bound, name: value}) for rule in self._readers[name]) if by_rules else other in self:
                    found.append(other)
        return found

    @cached_property
    def _readers(self) -> dict[str, tuple[Constraint, ...]]:
        return {name: tuple(rule for rule in self.constraints if name in rule.reads) for name in self.parameters}

    @cached_property
    def _keys(self) -> frozenset[str]:
        return frozenset(canonical(config) for config in self._configs or ())

    @cached_property
    def _common(self) -> bool:
        """Whether random combinations are legal often enough to wait for one; by its own dice, so that a seed repeats."""
        rng = np.random.default_rng(0)
        return any(self._legal(self._draw(rng)) for _ in range(self._effort.draws))

    def _counting(self, states: int) -> Counting | None:
        """Counts of the legal completions, or None where that takes more than so many states."""
        for limit in self._counted:
            if self._counted[limit] is not None or limit >= states:
                return self._counted[limit]
        try:
            self._counted[states] = Counting(self._rules, states, self._effort.dry)
        except TooManyStatesError:
            self._counted[states] = None
        return self._counted[states]

    def _draw(self, rng: np.random.Generator) -> dict[str, Value]:
        return {name: values[int(rng.integers(len(values)))] for name, values in self.parameters.items()}

    def _legal(self, config: Config) -> bool:
        values = {**self.facts, **config}
        return all(constraint.check(values) for constraint in self.constraints)

    def _extend(self, values: dict[str, Value], depth: int, pending: int, walk: _Walk) -> Iterator[dict[str, Value]]:
        """The legal completions of ``values``, which binds the facts and the parameters before ``depth``."""
        names = self._rules.names
        if depth == len(names):
            walk.dry = 0
            yield {name: values[name] for name in names}
            return
        name, candidates = names[depth], self.parameters[names[depth]]
        for place in range(len(candidates)) if walk.rng is None else walk.rng.permutation(len(candidates)):
            walk.steps.step()
            walk.dry += 1
            values[name] = candidates[place]
            left = self._rules.settle(values, name, pending)
            if left is not None and not (walk.dry > self._effort.dry and self._rules.hopeless(values, depth + 1, left)):
                yield from self._extend(values, depth + 1, left, walk)
        del values[name]

    def _descend(self, rng: np.random.Generator) -> tuple[dict[str, Value], float] | None:
        """Bind one parameter after another at random; the configuration and the logarithm of its choices, or None at a dead end."""
        values, pending, choices = dict(self.facts), self._rules.open, 0.0
        if pending is None:
            return None
        for name, candidates in self.parameters.items():
            open_ways = []
            for value in candidates:
                values[name] = value
                left = self._rules.settle(values, name, pending)
                if left is not None:
                    open_ways.append((value, left))
            if not open_ways:
                return None
            usual = self.absent.get(name)  # what came later is seldom worth as many tries as what was there before
            place = next((place for place, (value, _) in enumerate(open_ways) if value == usual), None)
            if place is None or len(open_ways) == 1:
                place, odds = int(rng.integers(len(open_ways))), 1 / len(open_ways)
            elif rng.random() < _USUAL:
                odds = _USUAL
            else:
                del open_ways[place]
                place, odds = int(rng.integers(len(open_ways))), (1 - _USUAL) / len(open_ways)
            values[name], pending = open_ways[place]
            choices -= math.log(odds)
        return {name: values[name] for name in self.parameters}, choices

    def _check_names(self) -> None:
        known = set(self.parameters) | set(self.facts)
        for constraint in self.constraints:
            for name in constraint.reads:
                if name not in known:
                    raise UnknownNameError(f"name in constraint {constraint.text!r}:", name, known)

    def _empty_message(self) -> str:
        return f"no configuration of the {self.size} combinations satisfies all constraints: {'; '.join(c.text for c in self.constraints)}"


class _Walk:
    """A walk through partial configurations: in the order of the values, or in a random one; ``dry``: how many since a legal one."""

    def __init__(self, rng: np.random.Generator | None = None) -> None:
        self.rng, self.steps, self.dry = rng, Steps(), 0
