"""ParameterSpace: parameters with their values, and constraints; configurations are enumerated only as far as they are needed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice

import numpy as np

from portatile.errors import ArgumentError, SpaceError, UnknownNameError, UsageError
from portatile.records import Config, Value
from portatile.records import canonical as spelled
from portatile.space.constraint import Constraint, Predicate
from portatile.space.counting import Counting, TooManyStatesError
from portatile.space.deadline import Steps
from portatile.space.effort import Effort
from portatile.space.rules import Node, Rules

_USUAL = 0.8  # the share of random descents in which a later parameter keeps the value that earlier configurations imply


class ParameterSpace:
    """The legal configurations of a computation.

    ``parameters`` maps a name to its values (int, float, bool or str). A constraint is a callable whose argument names
    are parameters or ``facts``, or an expression over them; it is checked as soon as its last name is bound.

    ``there`` maps a parameter that only some configurations have to the expression that says which ones, and to the value that stands for
    it in the others: constraints read that value, and a search sees it as one of the parameter's positions. ``later`` gives the usual
    values of parameters that were added after configurations had been recorded, which do not name them; ``canonical`` converts such a
    configuration to the space's present names. ``effort`` limits each way of finding legal configurations.
    """

    def __init__(
        self,
        parameters: Mapping[str, Sequence[Value]],
        constraints: Iterable[Predicate | str | Constraint] = (),
        facts: Mapping[str, Value] | None = None,
        later: Mapping[str, Value] | None = None,
        there: Mapping[str, tuple[str, Value]] | None = None,
        canonical: Callable[[Config], Config] | None = None,
        effort: Effort | None = None,
    ) -> None:
        self.parameters: dict[str, tuple[Value, ...]] = {name: tuple(values) for name, values in parameters.items()}
        self.facts = dict(facts or {})
        self.later = {name: value for name, value in (later or {}).items() if name in self.parameters}
        self.there = {name: default for name, default in (there or {}).items() if name in self.parameters}
        self._canonical = canonical
        self._effort = effort or Effort()
        for name, values in self.parameters.items():
            if not values:
                raise SpaceError(f"parameter {name!r} has no values")
            if len(set(map(spelled, values))) != len(values):
                raise SpaceError(f"parameter {name!r} lists a value twice: {values}")
        elsewhere = (f"({condition}) or {name} == {value!r}" for name, (condition, value) in self.there.items())
        known = self.parameters.keys() | self.facts.keys()
        self.constraints = tuple(Constraint.of(rule, known) for rule in (*elsewhere, *constraints))
        self._conditions = {name: Constraint.of(condition, known) for name, (condition, _) in self.there.items()}
        self._check_names()
        self._rules = Rules(self.parameters, self.facts, self.constraints)
        self._configs: tuple[dict[str, Value], ...] | None = None
        self._recorded: dict[str, dict[str, Value]] = {}
        self._counted: dict[int, Counting | None] = {}

    @classmethod
    def from_configs(cls, configs: Sequence[Config]) -> ParameterSpace:
        """The space of exactly these ``configs``, as of a recorded space; a parameter that a configuration lacks counts as its first value.

        Raises SpaceError for no configuration at all.
        """
        if not configs:
            raise SpaceError("a space needs at least one configuration")
        names = dict.fromkeys(name for config in configs for name in config)
        space = cls({name: tuple(dict.fromkeys(config[name] for config in configs if name in config)) for name in names})
        space._configs = tuple(dict(config) for config in configs)
        lacking = [name for name in names if any(name not in config for config in configs)]
        space.there = {name: ("", space.parameters[name][0]) for name in lacking}
        space._recorded = {spelled(space.full(config)): dict(config) for config in configs} if lacking else {}
        return space

    def restricted(self, parameters: Mapping[str, Sequence[Value]]) -> ParameterSpace:
        """The subspace in which these parameters have only these values."""
        own = self.constraints[len(self.there) :]
        return ParameterSpace(parameters, own, self.facts, self.later, self.there, self._canonical)

    @property
    def recorded(self) -> bool:
        """Whether the space holds a list of configurations rather than rules."""
        return self._configs is not None

    @property
    def size(self) -> int:
        """The number of combinations before constraints."""
        return math.prod(len(values) for values in self.parameters.values())

    def count(self) -> int:
        """The number of legal configurations, counted without enumeration if constraints tie few parameters together."""
        if self._configs is not None:
            return len(self._configs)
        counting = self._counting(self._effort.states)
        return sum(1 for _ in self) if counting is None else counting.total

    def complete(self, config: Config) -> Config:
        """``config``, which an earlier version may have recorded, in the space's present names; unchanged if that is impossible."""
        try:
            return config if self._canonical is None else self._canonical(config)
        except UsageError:
            return config

    def full(self, config: Config) -> dict[str, Value]:
        """Every parameter in the order of the space; one that ``config`` lacks has the value that stands for it."""
        return {name: config[name] if name in config else self.there[name][1] for name in self.parameters}

    def named(self, values: Config) -> dict[str, Value]:
        """The configuration for which ``full`` returns ``values``."""
        if not self.there:
            return {name: values[name] for name in self.parameters}
        if self.recorded:
            full = {name: values[name] for name in self.parameters}
            return dict(self._recorded.get(spelled(full), full))
        bound = {**self.facts, **values}
        conditions = self._conditions
        return {name: values[name] for name in self.parameters if name not in conditions or conditions[name].check(bound)}

    def violated(self, config: Config) -> str | None:
        """The reason why ``config`` is not legal, or None. Raises UnknownNameError for a name that is not a parameter."""
        try:
            config = config if self._canonical is None else self._canonical(config)
        except ArgumentError as error:
            return str(error)
        if unknown := set(config) - set(self.parameters):
            raise UnknownNameError("parameter", sorted(unknown)[0], self.parameters)
        if missing := [name for name in self.parameters if name not in config and name not in self.there]:
            return f"no value for {', '.join(missing)}"
        for name, value in config.items():
            if not any(value == known and type(value) is type(known) for known in self.parameters[name]):
                return f"{name}={value!r} is not one of {self.parameters[name]}"
        if self._configs is not None:
            return None if spelled(config) in self._keys else "not among the recorded configurations"
        values = {**self.facts, **self.full(config)}
        for name, condition in self._conditions.items():
            if condition.check(values) != (name in config):
                return f"{name} is {'not ' if name in config else ''}there where {self.there[name][0]}"
        if self._keeps_all(values):
            return None
        return next((f"violates {c.words or c.text}" for c in self.constraints if not c.check(values)), None)

    def _keeps_all(self, values: Config) -> bool:
        """Whether every constraint holds; all expressions are evaluated as one, in a twentieth of the time. False, too, if one of them
        cannot be evaluated.
        """
        try:
            return self._joint.check(values) and all(c.check(values) for c in self.constraints if c.code is None)
        except SpaceError:
            return False

    @cached_property
    def _joint(self) -> Constraint:
        """All constraints that are expressions, as one."""
        texts = dict.fromkeys(f"({c.text})" for c in self.constraints if c.code is not None)
        return Constraint.of(" and ".join(texts) or "True", self.parameters.keys() | self.facts.keys())

    def __contains__(self, config: object) -> bool:
        if not isinstance(config, Mapping):
            return False
        named = self.complete(config)
        return set(named) <= set(self.parameters) and self.violated(named) is None

    def __iter__(self) -> Iterator[dict[str, Value]]:
        if self._configs is not None:
            yield from (dict(config) for config in self._configs)
            return
        if (counting := self._counting(self._effort.few_states)) is not None:
            yield from map(self.named, counting.listed())
        elif self._rules.start is not None:
            yield from self._extend(dict(self.facts), self._rules.start, _Walk())

    def sample(self, rng: np.random.Generator) -> dict[str, Value]:
        """A random legal configuration; raises SpaceError if there is none.

        The draw is uniform if legal combinations are common or can be counted. Otherwise one of several random descents through the
        parameters is chosen, weighted by the number of choices that each had, which favours regions with few dead ends. If all descents
        fail, a search in random order backtracks at dead ends, and skips what the bounds of the parameters exclude.
        """
        if self._configs is not None:
            return dict(self._configs[int(rng.integers(len(self._configs)))])
        counting = None if self._often_legal else self._counting(self._effort.few_states)
        if counting is None and self._drawable:
            while True:
                config = self._draw(rng)
                if self._legal(config):
                    return self.named(config)
        if counting is not None or (counting := self._counting(self._effort.states)) is not None:
            if not counting.total:
                raise SpaceError(self._empty_message())
            return self.named(counting.draw(rng))
        descents = list(islice(filter(None, (self._descend(rng) for _ in range(self._effort.descents))), self._effort.kept))
        if descents:
            weights = np.exp(np.array([weight for _, weight in descents]) - max(weight for _, weight in descents))
            return descents[int(rng.choice(len(descents), p=weights / weights.sum()))][0]
        start = self._rules.start
        walked = iter(()) if start is None else self._extend(dict(self.facts), start, _Walk(rng))
        if (drawn := next(walked, None)) is None:
            raise SpaceError(self._empty_message())
        return drawn

    def scatter(self, rng: np.random.Generator, count: int) -> list[dict[str, Value]]:
        """About ``count`` legal configurations, possibly repeated, for a search that needs many but no exact probabilities.

        In a space that is too sparse for draws and too large to be counted at once, each is one random descent, and some may be missing.
        """
        if self.recorded or self._drawable or self._counting(self._effort.fewest_states) is not None:
            return [self.sample(rng) for _ in range(count)]
        descents = (self._descend(rng) for _ in range(4 * count))
        return [config for config, _ in islice(filter(None, descents), count)] or [self.sample(rng)]

    def neighbours(self, config: Config, *, adjacent: bool = False) -> list[dict[str, Value]]:
        """The legal configurations that differ from ``config`` in one parameter; with ``adjacent``, by one position in its values."""
        neighbours = []
        by_rules = self._configs is None and self.violated(config) is None  # then only rules that read the changed parameter can fail
        full = self.full(config)
        bound = {**self.facts, **full}
        for name, values in self.parameters.items():
            here = values.index(full[name])
            for place, value in enumerate(values):
                if place == here or (adjacent and abs(place - here) != 1):
                    continue
                if by_rules and not all(rule.check({**bound, name: value}) for rule in self._readers[name]):
                    continue
                other = self.named({**full, name: value})
                if by_rules or other in self:
                    neighbours.append(other)
        return neighbours

    @cached_property
    def _readers(self) -> dict[str, tuple[Constraint, ...]]:
        return {name: tuple(rule for rule in self.constraints if name in rule.reads) for name in self.parameters}

    @cached_property
    def _keys(self) -> frozenset[str]:
        return frozenset(spelled(config) for config in self._configs or ())

    @cached_property
    def _often_legal(self) -> bool:
        """Whether random combinations are legal so often that drawing them costs less than counting."""
        return next(islice(self._drawn_legal(), self._effort.common - 1, None), None) is not None

    @cached_property
    def _drawable(self) -> bool:
        """Whether a random combination is legal often enough to draw until one is."""
        return next(self._drawn_legal(), None) is not None

    def _drawn_legal(self) -> Iterator[dict[str, Value]]:
        """The legal ones among some random combinations, drawn with a separate generator so that a seed gives the same results."""
        rng = np.random.default_rng(0)
        return filter(self._legal, (self._draw(rng) for _ in range(self._effort.draws)))

    def _counting(self, states: int) -> Counting | None:
        """The counts of legal completions, or None if they would take more than ``states`` states."""
        for limit, counting in list(self._counted.items()):  # another search may be counting at the same time
            if counting is not None or limit >= states:
                return counting
        try:
            self._counted[states] = Counting(self._rules, states, self._effort.fruitless)
        except TooManyStatesError:
            self._counted[states] = None
        return self._counted[states]

    def _draw(self, rng: np.random.Generator) -> dict[str, Value]:
        return {name: values[int(rng.integers(len(values)))] for name, values in self.parameters.items()}

    def _legal(self, config: Config) -> bool:
        values = {**self.facts, **config}
        return all(constraint.check(values) for constraint in self.constraints)

    def _extend(self, values: dict[str, Value], here: Node, walk: _Walk) -> Iterator[dict[str, Value]]:
        """The legal completions of ``values``, which binds the facts and the parameters before ``here``."""
        if here.last:
            walk.fruitless = 0
            yield self.named(values)
            return
        candidates = here.candidates
        for place in range(len(candidates)) if walk.rng is None else walk.rng.permutation(len(candidates)):
            walk.steps.step()
            walk.fruitless += 1
            values[here.name] = candidates[place]
            after = here.settle(values)
            if after is not None and not (walk.fruitless > self._effort.fruitless and self._rules.infeasible(values, after)):
                yield from self._extend(values, after, walk)
        del values[here.name]

    def _descend(self, rng: np.random.Generator) -> tuple[dict[str, Value], float] | None:
        """Bind one parameter after another at random; (configuration, logarithm of the number of choices), or None at a dead end."""
        values, here, choices = dict(self.facts), self._rules.start, 0.0
        if here is None:
            return None
        for name, candidates in self.parameters.items():
            open_ways = []
            for value in candidates:
                values[name] = value
                after = here.settle(values)
                if after is not None:
                    open_ways.append((value, after))
            if not open_ways:
                return None
            usual = self.later.get(name)  # a parameter that was added later seldom deserves as many tries as the others
            place = next((place for place, (value, _) in enumerate(open_ways) if value == usual), None)
            if place is None or len(open_ways) == 1:
                place, odds = int(rng.integers(len(open_ways))), 1 / len(open_ways)
            elif rng.random() < _USUAL:
                odds = _USUAL
            else:
                del open_ways[place]
                place, odds = int(rng.integers(len(open_ways))), (1 - _USUAL) / len(open_ways)
            values[name], here = open_ways[place]
            choices -= math.log(odds)
        return self.named(values), choices

    def _check_names(self) -> None:
        known = set(self.parameters) | set(self.facts)
        for constraint in self.constraints:
            for name in constraint.reads:
                if name not in known:
                    first = next(iter(self.parameters), "n")
                    named = f", whose arguments are named after what it reads, as in 'lambda {first}: ...'"
                    how = "" if constraint.code is not None else named
                    raise UnknownNameError(f"name in constraint {constraint.text!r}{how}:", name, known)

    def _empty_message(self) -> str:
        return f"no configuration of the {self.size} combinations satisfies all constraints: {'; '.join(c.text for c in self.constraints)}"


class _Walk:
    """A walk through partial configurations, in the order of the values or at random; ``fruitless`` counts them
    since the last legal one.
    """

    def __init__(self, rng: np.random.Generator | None = None) -> None:
        self.rng, self.steps, self.fruitless = rng, Steps(), 0
