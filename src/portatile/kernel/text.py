"""A user's kernel text, and the parameters that become its definitions."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, cast

import numpy as np

from portatile import dialect
from portatile.capabilities import Capabilities
from portatile.dialect.signature import Signature, signature
from portatile.dialect.variables import first_declared
from portatile.errors import ArgumentError, CompileError, UnknownNameError, reason
from portatile.records import Config, DeviceInfo, Size3, Source, Value
from portatile.template import spell

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_FIELD = re.compile(r"\{(\w+)\}")  # in an option, the value of a parameter


@dataclass(frozen=True)
class KernelText:
    """OpenCL C with its headers included, the kernel's signature in its first configuration, and the compiler options."""

    text: str
    file: str
    entry: str
    options: tuple[str, ...]
    head: Signature
    _groups: dict[Source, Size3 | None] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def of(cls, source: str | Path, entry: str, options: Sequence[str], constants: Config, configs: Iterable[Config]) -> KernelText:
        """Read a text or file; ``configs`` are tried in turn until the preprocessor accepts one.

        Raises ArgumentError for a file that cannot be read, for CUDA C, and for definitions with the name of a variable; CompileError with
        file and line for what cannot be parsed.
        """
        path = Path(source) if isinstance(source, Path) or (source.endswith(".cl") and "{" not in source) else None
        try:
            text = dialect.read_text(path) if path is not None else str(source)
        except OSError as error:
            raise ArgumentError(f"the kernel file {path} cannot be read: {reason(error)}") from None
        remaining, folders = _split(options)
        file = path.name if path is not None else f"{entry}.cl"
        wrong: CompileError | None = None
        for config in configs:
            defines = dialect.definitions(_filled(remaining, {**constants, **config}))[0] | _spelt({**constants, **config})
            whole = dialect.gather(text, path if path is not None else file, folders, defines)
            if foreign := dialect.cuda_word(whole, file, defines):
                raise ArgumentError(foreign)
            try:
                read = cls(whole, file, entry, remaining, signature(whole, entry, file, defines))
                _check_variables(whole, file, defines, {**constants, **config})
                return read
            except CompileError as error:
                wrong = wrong or error
                _check_clash(whole, entry, file, _spelt(constants), config)
        assert wrong is not None
        raise wrong

    @property
    def identity(self) -> tuple[str, ...]:
        """The part of a digest that covers the text."""
        return (self.text, self.entry, *self.options)

    @property
    def requires_group(self) -> bool:
        """Whether the kernel declares its work-group."""
        return self.head.work_group is not None

    def mentions(self, name: str, constants: Iterable[Value]) -> bool:
        """Whether the text, an option or a constant contains the name outside of comments; True if macros may paste it together."""
        plain = _COMMENT.sub(" ", self.text)
        texts = (plain, *self.options, *map(str, constants))
        return "##" in plain or any(re.search(rf"\b{re.escape(name)}\b", text) for text in texts)

    def source(self, config: Config) -> Source:
        """The text with ``config``, which holds the constants too, as definitions and in the options."""
        return Source(self.file, self.text, tuple(_spelt(config).items()), _filled(self.options, config))

    def work_group(self, source: Source) -> Size3 | None:
        """The ``reqd_work_group_size`` in a configuration."""
        if "reqd_work_group_size" not in self.text:
            return None
        if source not in self._groups:
            defines = dialect.definitions(source.options)[0] | dict(source.defines)
            self._groups[source] = signature(self.text, self.entry, self.file, defines).work_group
        return self._groups[source]


def values(parameters: Mapping[str, Sequence[Value]]) -> dict[str, tuple[Value, ...]]:
    """Tunable parameters with plain values; raises ArgumentError for values that cannot be definitions."""
    if not isinstance(parameters, Mapping):
        raise ArgumentError(f"parameters={parameters!r} must be a dict of names and their values, such as {{'block': [16, 64]}}")
    checked = {}
    for name, choices in parameters.items():
        _check_name(name)
        if _WORDS.fullmatch(name):
            raise ArgumentError(f"parameter {name!r} is a word of OpenCL C, and its #define would replace it everywhere: rename it")
        if isinstance(choices, str) or not isinstance(choices, Iterable):
            raise ArgumentError(f"parameter {name!r} must have a list of values, not {choices!r}")
        checked[name] = tuple(_plain(name, value) for value in choices)
        if not checked[name]:
            raise ArgumentError(f"parameter {name!r} has no values")
    return checked


def first_and_last(parameters: Mapping[str, Sequence[Value]], default: Config | None) -> tuple[Config, ...]:
    """The first and the last configuration, for parsing. Two, because one may be illegal, and the text may reject it by ``#error``."""
    first = {name: choices[0] for name, choices in parameters.items()} | dict(default or {})
    return first, {name: choices[-1] for name, choices in parameters.items()}


def constants(config: Config, parameters: Mapping[str, object]) -> dict[str, Value]:
    """Definitions that are equal in every configuration.

    Raises ArgumentError for a name that is also a parameter, and for a value of an unsupported type.
    """
    for name in config:
        _check_name(name)
        if name in parameters:
            raise ArgumentError(f"{name!r} is both a parameter and a constant; it can only be one of them")
    return {name: _plain(name, value) for name, value in config.items()}


def limits(device: DeviceInfo) -> dict[str, Value]:
    """Properties of a device, from its record."""
    return {f"max_work_item_{axis}": size for axis, size in zip("xyz", device.max_work_item_sizes, strict=True)}


_WORDS = re.compile(
    "auto|break|case|char|const|constant|continue|default|do|double|else|enum|extern|float|for|global|goto|half|if|inline|int|kernel|local|long|"
    "private|register|restrict|return|short|signed|sizeof|static|struct|switch|typedef|union|unsigned|void|volatile|while"
)
_NUMBERS = {entry.name: (1, 1, 1) if "sizes" in entry.name else 0 for entry in fields(DeviceInfo)}
_NOMINAL = DeviceInfo(**cast(Any, {**_NUMBERS, "capabilities": Capabilities()}))
DEVICE_FACTS = (*_NOMINAL.facts(), *limits(_NOMINAL))
"""The names of the properties of a device that expressions and constraints may read."""


def _check_name(name: str) -> None:
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII):
        raise ArgumentError(f"{name!r} cannot be #defined: it must be a name")


def _check_clash(text: str, entry: str, file: str, constants: Mapping[str, str], config: Config) -> None:
    """Raise ArgumentError if a definition has the name of an argument, which prevents parsing."""
    try:
        head = signature(text, entry, file, {})
    except CompileError:
        return
    for parameter in head.parameters:
        if parameter.name in config or parameter.name in constants:
            raise ArgumentError(f"{parameter.name!r} is an argument of {entry}, and its #define would replace it there: rename one")


def _check_variables(text: str, file: str, defines: Mapping[str, str], config: Config) -> None:
    """Raise ArgumentError if a definition has the name of a variable in the text, and is not a plain name itself."""
    names = [name for name, value in config.items() if not isinstance(value, str)]
    if (found := first_declared(text, file, defines, names)) is not None:
        name, where = found
        raise ArgumentError(f"{where}: {name!r} is a variable of the text, and the #define of that name would replace it: rename one")


def _plain(name: str, value: Any) -> Value:
    plain = value.item() if isinstance(value, np.generic) else value
    if not isinstance(plain, bool | int | float | str):
        raise ArgumentError(f"{name}: {value!r} is a {type(value).__name__}; values are numbers, booleans and strings")
    if isinstance(plain, float) and not math.isfinite(plain):
        raise ArgumentError(f"{name}: {value!r} is no number in OpenCL C; write its name there as text: 'NAN' or 'INFINITY'")
    return plain


def _spelt(config: Config) -> dict[str, str]:
    return {name: spell(value) for name, value in config.items()}


def _filled(options: tuple[str, ...], config: Config) -> tuple[str, ...]:
    """The options with each ``{name}`` replaced by that parameter's value, which may be none or several options.

    Raises UnknownNameError for a name that is no parameter and no constant.
    """
    filled: list[str] = []
    for option in options:
        if unknown := [name for name in _FIELD.findall(option) if name not in config]:
            raise UnknownNameError(f"parameter in the option {option!r}", unknown[0], config)
        text = _FIELD.sub(lambda match: str(config[match[1]]), option)
        filled += [option] if text == option else text.split()
    return tuple(filled)


def _split(options: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Options for compilers, and the folders of ``-I``."""
    if isinstance(options, str):
        raise ArgumentError(f"options={options!r} must be a list of strings, such as ['-cl-mad-enable']")
    remaining: list[str] = []
    folders: list[str] = []
    rest = iter(options)
    for option in rest:
        if option == "-I":
            folders.append(next(rest, "."))
        elif option.startswith("-I"):
            folders.append(option[2:])
        else:
            remaining.append(option)
    return tuple(remaining), tuple(folders)
