"""The kernel forms of GEMM: a folder for each with its parameters, its default and its kernel texts, found by its name.

A form's package defines ``form``. The kernel texts beside this file are shared by the forms: the product's arguments and batch, split k
(join, cluster, reduce), element types and epilogue, vectors, packing and copies.

A form's package has a ``form``. The texts here are shared: the arguments of a product's kernel, its batch, how groups that share a tile's
k find the last of them, vectors, packing, and the sum of planes.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import zip_longest

import msgspec

from portatile.errors import ArgumentError, UnknownNameError
from portatile.records import Config, DeviceInfo, Problem, Value
from portatile.records import canonical as spelled
from portatile.workloads.gemm.parameters import FormParameter, declaration
from portatile.workloads.gemm.point import Point

UNKNOWN_LOSS = 1.25  # the ratio of the default's time to the best configuration's on unmeasured shapes, if nothing is known about it


@dataclass(frozen=True)
class Form:
    """A kernel form.

    - ``default`` returns its best point for a problem on a device (``batch`` such problems), or None if the form does not suit them. Forms
      are asked in the order of their ``rank``.
    - ``facts``: what the rules of its parameters read beside the facts of problem and device.
    - ``loss``: the ratio of the default's time to the best configuration's on unmeasured shapes.
    - ``contenders``: at most ``count`` further points that may be as fast as the default.
    """

    point: type[Point]
    rank: int
    default: Callable[[Problem, DeviceInfo, int], Point | None]
    facts: Callable[[Problem, DeviceInfo], dict[str, Value]] = lambda problem, device: {}
    loss: Callable[[Problem, DeviceInfo], float] = lambda problem, device: UNKNOWN_LOSS
    contenders: Callable[[Problem, DeviceInfo, int], Iterable[Point]] = lambda problem, device, count: ()

    @property
    def name(self) -> str:
        """The form's value of FORM."""
        return self.point.FORM


@cache
def forms() -> Mapping[str, Form]:
    """Every form by its name, in alphabetical order."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__) if module.ispkg)
    return {name: importlib.import_module(f"{__name__}.{name}").form for name in names}


@cache
def ranked() -> tuple[Form, ...]:
    """Every form, in the order in which they are asked for a default."""
    return tuple(sorted(forms().values(), key=lambda form: form.rank))


@cache
def parameters() -> Mapping[str, Mapping[str, FormParameter]]:
    """Every parameter with its declaration in each form that has it."""
    by_form: dict[str, dict[str, FormParameter]] = {}
    for name, form in forms().items():
        for definition in declaration(form.point).parameters.values():
            by_form.setdefault(definition.name, {})[name] = definition
    return by_form


def default(problem: Problem, device: DeviceInfo, batch: int = 1) -> Point:
    """The point of the first form that has a default; legal and correct for every problem, of which a launch computes ``batch``."""
    return next(point for form in ranked() if (point := form.default(form.point.view(problem), device, batch)) is not None)


def contenders(problem: Problem, device: DeviceInfo, count: int) -> list[Config]:
    """At most ``count`` configurations that may be faster than the default: each form's default, then the forms' contenders in turn. They
    may break rules of the space.
    """
    points: list[Point] = []
    offers: list[list[Point]] = []
    for form in ranked():
        if offered := list(form.contenders(form.point.view(problem), device, count)):
            offers.append(offered)
            points += filter(None, [form.default(form.point.view(problem), device, 1)])
    for turn in zip_longest(*offers):
        points += filter(None, turn)
    configs: list[Config] = []
    for point in points:
        if len(configs) < count and (config := point.config()) not in configs:
            configs.append(config)
    return configs


def loss(problem: Problem, device: DeviceInfo) -> float:
    """The ratio of the default's time to the best configuration's on unmeasured shapes, as far as a form knows it."""
    return min(form.loss(form.point.view(problem), device) for form in ranked())


def meanings(batched: bool = False) -> Mapping[str, str]:
    """A sentence or two for each parameter, and for each meaning of a name that forms use differently."""
    by_name = {"FORM": f"The kernel's form: {', '.join(forms())}."}
    for name, definitions in parameters().items():
        texts: dict[str, list[str]] = {}
        for form, one in definitions.items():
            if one.batched or not batched:
                texts.setdefault(one.meaning, []).append(form)
        if len(texts) == 1:
            by_name[name] = next(iter(texts))
        elif texts:
            by_name[name] = " ".join(f"{', '.join(names)}: {text}" for text, names in texts.items())
    return by_name


def explained(config: Config) -> Mapping[str, str]:
    """For each parameter of the configuration's form: its meaning, the values that a search tries, and its rules."""
    form = forms()[str(config["FORM"])]
    texts = {"FORM": (form.point.__doc__ or "").strip().partition("\n")[0]}
    for name, definition in declaration(form.point).parameters.items():
        rules = "".join(f" Rule: {words}." for words, _ in definition.must)
        there = f" Only where {definition.when}." if definition.when else ""
        texts[name] = f"{definition.meaning}{there} Tried: {', '.join(map(str, definition.values))}.{rules}"
    return texts


def read(config: Config) -> Point:
    """The configuration as a point; raises UsageError with the rule in words if it contradicts itself."""
    return _read(spelled(config))


def canonical(config: Config, batched: bool = False) -> dict[str, Value]:
    """The configuration with just the parameters that have an effect in its form (for a batch, if ``batched``), in the order of
    declaration.

    A parameter that was added after the configuration had been recorded gets its default. A parameter without an effect may be present with
    the value that it had when all forms shared one list of parameters; raises UsageError for any other value, name or type.

    Parameters that it was recorded without, because they came later, get their default. A parameter that does nothing may be named with
    the value that it had when all forms shared one list of parameters; raises UsageError for any other value, name or type.
    """
    return dict(_canonical(spelled(config), batched))


@lru_cache(maxsize=4096)  # the configurations of a store are read again and again
def _read(text: str) -> Point:
    named = canonical(msgspec.json.decode(text))
    point = forms()[str(named.pop("FORM"))].point(**named)
    point.check()
    return point


@lru_cache(maxsize=4096)
def _canonical(text: str, batched: bool) -> dict[str, Value]:
    config: Config = msgspec.json.decode(text)
    form = forms().get(str(config.get("FORM")))
    if form is None:
        raise ArgumentError(f"gemm: FORM={config.get('FORM')!r} is not one of {', '.join(forms())}")
    said_of = declaration(form.point)
    declared = {name: definition for name, definition in said_of.parameters.items() if definition.batched or not batched}
    for name, value in config.items():
        if name != "FORM" and name not in declared:
            _idle(form.point, name, value, f"in the {form.name} form")
        elif name != "FORM" and type(value) is not type(declared[name].default):
            raise ArgumentError(f"gemm: {name}={value!r} must be of type {type(declared[name].default).__name__}")
    full = {**said_of.defaults, **{name: config[name] for name in declared if name in config}}
    settled: dict[str, Value] = {"FORM": form.name}
    for name, definition in declared.items():
        acts = said_of.acts(name, full)
        if acts and (name in config or definition.later):
            settled[name] = full[name]
        elif not acts and name in config:
            _idle(form.point, name, config[name], f"in the {form.name} form unless {definition.when}")
    return settled


def _idle(point: type[Point], name: str, value: Value, where: str) -> None:
    """Raise UsageError unless ``value`` is one that a parameter without an effect may have."""
    if name not in parameters():
        raise UnknownNameError("gemm parameter", name, ("FORM", *parameters()))
    known = [*(definition.default for definition in parameters()[name].values()), *point.IDLE.get(name, ())]
    known += [definition.idle for definition in (declaration(point).parameters.get(name),) if definition is not None]
    if not any(value == one and type(value) is type(one) for one in known):
        raise ArgumentError(f"gemm: {name}={value!r} does nothing {where}: leave it out")
