"""T1 files: the JSON format in which Kernel Tuner, KTT and related benchmarks describe a tuning problem.

These fields are read: ``ConfigurationSpace`` (``TuningParameters`` with ``Name``, ``Type``, ``Values``, ``Default``; ``Conditions``);
``KernelSpecification`` (``Language`` OpenCL, ``KernelName``, ``KernelFile``, ``CompilerOptions``, ``Arguments``, ``ReferenceArguments``,
``LocalSize``, ``GlobalSize`` with ``GlobalSizeType``, or Kernel Tuner's ``ProblemSize`` with ``GridDivX``, ``GridDivY``, ``GridDivZ``);
``Budget``. Expressions are inspected before they are evaluated: a file can do arithmetic, and call nothing else.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from portatile.errors import ArgumentError, reason
from portatile.formats import bounded_reading
from portatile.formats.t1_fields import Fields
from portatile.records import Config, Value
from portatile.space import ParameterSpace
from portatile.trials import Budget

_TYPES = {"bool": "uint8", "half": "float16", "float": "float32", "double": "float64"}
_TYPES |= {f"{sign}int{bits}": f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
_VECTOR = re.compile(r"(half|float|double)(2|4|8|16)")
_ROLES = {"ReadOnly": "in", "WriteOnly": "out", "ReadWrite": "inout"}
_METHODS = ("AbsoluteDifference", "SideBySideComparison", "SideBySideRelativeComparison")
_AXES = ("X", "Y", "Z")
_KERNEL = "KernelSpecification"
_FIELDS: Mapping[str, tuple[str, ...]] = {
    "": ("General", "ConfigurationSpace", _KERNEL, "Budget"),
    "ConfigurationSpace": ("TuningParameters", "Conditions"),
    "ConfigurationSpace.TuningParameters": ("Name", "Type", "Values", "Default"),
    "ConfigurationSpace.Conditions": ("Expression", "Parameters"),
    _KERNEL: (
        *("Language", "KernelName", "KernelFile", "CompilerOptions", "LocalSize", "GlobalSize", "GlobalSizeType", "SharedMemory"),
        *("ProblemSize", "GridDivX", "GridDivY", "GridDivZ", "Arguments", "ReferenceArguments"),
    ),
    f"{_KERNEL}.Arguments": ("Name", "Type", "MemoryType", "AccessType", "Size", "FillType", "FillValue", "RandomSeed", "DataSource"),
    f"{_KERNEL}.ReferenceArguments": (
        *("Name", "TargetName", "ValidationMethod", "ValidationThreshold", "FillType", "FillValue", "RandomSeed", "DataSource"),
    ),
    "Budget": ("Type", "BudgetValue"),
}
"""The fields of each record that are read. A similar but different name is reported as a mistake; any other name belongs to another tool.
"""
_SEED = 0  # of Random fills that name none
_MOST_ELEMENTS = 2**31 - 1  # of an argument


@dataclass(frozen=True)
class Reference:
    """The expected values of an output, and the tolerances: ``rtol`` relative to it, ``atol`` absolute."""

    values: NDArray[Any]
    rtol: float
    atol: float


@dataclass(frozen=True)
class Specification:
    """The content of a T1 file as the arguments of ``portatile.Kernel``.

    ``arguments`` and ``roles`` are in the order of the kernel's parameters, whatever the file calls them; ``references`` are by position in
    that order. ``budget`` is the file's, or None.
    """

    kernel_file: Path
    kernel: str
    arguments: tuple[Any, ...]
    roles: tuple[str | None, ...]
    references: Mapping[int, Reference]
    parameters: Mapping[str, tuple[Value, ...]]
    constraints: tuple[str, ...]
    global_size: tuple[str, ...]
    local_size: tuple[str, ...]
    default: Config | None
    options: tuple[str, ...]
    budget: Budget | None


def read(path: Path) -> Specification:
    """The specification in a T1 file; ``KernelFile`` and data files are relative to its folder.

    Arrays with ``FillType`` Constant hold ``FillValue``; Random ones hold numbers from 0 to ``FillValue`` (by default 1) drawn with
    ``RandomSeed``; BinaryRaw ones come from ``DataSource``. Raises ArgumentError, which says where in the file something is missing, wrong
    or unsupported.
    """
    try:
        document = bounded_reading.json_document(bounded_reading.content(path))
    except ValueError as error:
        raise error if isinstance(error, ArgumentError) else ArgumentError(f"{path} is not JSON: {error}") from None
    if not isinstance(document, Mapping) or not {"KernelSpecification", "ConfigurationSpace"} <= set(document):
        raise ArgumentError(f"{path} is not a T1 file: it lacks ConfigurationSpace or KernelSpecification")
    return _Reader(path, document).specification()


class _Reader(Fields):
    """Reads one file; ``at`` in its methods is a place in the file, for messages."""

    def __init__(self, path: Path, document: Mapping[str, Any]) -> None:
        super().__init__(path)
        self.document = document
        self.space = self.get(document, "", "ConfigurationSpace", Mapping)
        self.kernel = self.get(document, "", "KernelSpecification", Mapping)
        self.parameters: dict[str, tuple[Value, ...]] = {}

    def specification(self) -> Specification:
        """The whole specification; raises ArgumentError for the first mistake."""
        self._check_spelling()
        if (language := self.get(self.kernel, _KERNEL, "Language", str)) != "OpenCL":
            self.fail(f"{_KERNEL}.Language is {language!r}; portatile takes OpenCL C, which it runs through OpenCL and through CUDA")
        if self.kernel.get("SharedMemory"):
            self.fail(f"{_KERNEL}.SharedMemory is CUDA's dynamic memory; declare a __local argument and give it MemoryType Local")
        default = self._read_parameters()
        constraints = tuple(self._condition(entry, at) for entry, at in self.list(self.space, "ConfigurationSpace", "Conditions"))
        arguments = self.list(self.kernel, _KERNEL, "Arguments")
        values = tuple(self._argument(entry, at) for entry, at in arguments)
        local = self._local_size()
        legal = ParameterSpace(self.parameters, constraints)
        return Specification(
            kernel_file=bounded_reading.regular_file(self.path.parent / self.file(self.kernel, _KERNEL, "KernelFile")),
            kernel=self.get(self.kernel, _KERNEL, "KernelName", str),
            arguments=values,
            roles=tuple(self._role(entry, at) for entry, at in arguments),
            references=self._references([entry.get("Name") for entry, _ in arguments], values),
            parameters=self.parameters,
            constraints=constraints,
            global_size=self._global_size(local),
            local_size=local,
            default=default if default is not None and default in legal else None,
            options=tuple(str(option) for option in self.kernel.get("CompilerOptions") or () if not str(option).startswith("-std=")),
            budget=self._budget(),
        )

    def _check_spelling(self) -> None:
        """Fail for a name that is similar to a field's: otherwise a condition or a reference would be ignored silently."""
        records = {"": self.document, "ConfigurationSpace": self.space, _KERNEL: self.kernel}
        for at, names in _FIELDS.items():
            owner, _, last = at.rpartition(".")
            entries = [(records[at], at)] if at in records else self.list(records[owner], owner, last)
            for entry, place in entries:
                self.spelling(entry, place, names)

    # The space

    def _read_parameters(self) -> Config | None:
        """Fill ``parameters``; returns the file's default configuration, if it has a value for each."""
        default: dict[str, Value] = {}
        for entry, at in self.list(self.space, "ConfigurationSpace", "TuningParameters"):
            name = self.get(entry, at, "Name", str)
            if not name.isidentifier():
                self.fail(f"{at}.Name is {name!r}; a parameter's name is a word that an expression can read")
            kind = self.get(entry, at, "Type", str)
            values = self.evaluate(self.get(entry, at, "Values", str), f"{at}.Values", {})
            if not isinstance(values, list | tuple) or not values or not all(isinstance(v, int | float | str) for v in values):
                self.fail(f"{at}.Values is {entry['Values']!r}; it must be a list of numbers or strings")
            self.parameters[name] = tuple(self._typed(value, kind, at) for value in values)
            if "Default" in entry:
                given = entry["Default"]
                given = given[0] if isinstance(given, list) and len(given) == 1 else given
                default[name] = self._typed(given, kind, at)
        return default if set(default) == set(self.parameters) else None

    def _typed(self, value: Any, kind: str, at: str) -> Value:
        """A value in the parameter's declared type."""
        try:
            if kind in ("int", "uint") and value == int(value):
                return int(value)
            if kind == "float":
                return float(value)
            if kind == "bool":
                return bool(value)
            if kind == "string":
                return str(value)
        except (TypeError, ValueError, OverflowError):
            pass
        self.fail(f"{at}: {value!r} is not a value of type {kind!r} (int, uint, float, bool or string)")

    def _condition(self, entry: Mapping[str, Any], at: str) -> str:
        return self.expression(self.get(entry, at, "Expression", str), f"{at}.Expression", self.parameters)

    # The launch

    def _local_size(self) -> tuple[str, ...]:
        sizes = self.get(self.kernel, _KERNEL, "LocalSize", Mapping)
        return self._axes(sizes, f"{_KERNEL}.LocalSize", self.parameters)

    def _global_size(self, local: tuple[str, ...]) -> tuple[str, ...]:
        """Work-items. If there are divisors of the grid, they and ProblemSize apply, as in Kernel Tuner, and GlobalSize is ignored."""
        problem = self._problem_size()
        divisors = [self.kernel.get(f"GridDiv{axis}") for axis in _AXES]
        for name, divisor in zip(_AXES, divisors, strict=True):
            if divisor is not None and not isinstance(divisor, list):
                self.fail(f"{_KERNEL}.GridDiv{name} is {divisor!r}; it must be a list of expressions")
        if problem and any(divisors):
            global_size = []
            for axis, size in enumerate(problem):
                group = local[axis] if axis < len(local) else "1"
                by = divisors[axis]
                terms = [self.expression(str(term), f"{_KERNEL}.GridDiv{_AXES[axis]}", self.parameters) for term in by or (group,)]
                global_size.append(f"ceil({size} / ({' * '.join(f'({term})' for term in terms)})) * ({group})")
            return tuple(global_size)
        sizes = self.get(self.kernel, _KERNEL, "GlobalSize", Mapping)
        items = self._axes(sizes, f"{_KERNEL}.GlobalSize", self.parameters)
        kind = self.kernel.get("GlobalSizeType", "OpenCL")
        if kind == "OpenCL":
            return items
        if kind not in ("CUDA", "Vulkan"):
            self.fail(f"{_KERNEL}.GlobalSizeType is {kind!r}; it must be OpenCL (work-items), CUDA or Vulkan (work-groups)")
        groups = (*local, *("1",) * 3)
        return tuple(f"({count}) * ({group})" for count, group in zip(items, groups, strict=False))

    def _axes(self, sizes: Mapping[str, Any], at: str, known: Mapping[str, object]) -> tuple[str, ...]:
        """X, Y and Z as far as they are given."""
        if "X" not in sizes:
            self.fail(f"{at}.X is missing")
        named = [axis for axis in _AXES if axis in sizes]
        if named != list(_AXES[: len(named)]):
            self.fail(f"{at} has {', '.join(named)}; Y goes before Z")
        return tuple(self.expression(str(sizes[axis]), f"{at}.{axis}", known) for axis in named)

    def _problem_size(self) -> tuple[int, ...]:
        given = self.kernel.get("ProblemSize")
        if given is None:
            return ()
        sizes = given if isinstance(given, list) else [given]
        if len(sizes) > 3 or not all(isinstance(size, int) and size > 0 for size in sizes):
            self.fail(f"{_KERNEL}.ProblemSize is {given!r}; it must be one to three positive integers")
        return tuple(sizes)

    # Arguments

    def _argument(self, entry: Mapping[str, Any], at: str) -> Any:
        kind, memory = self.get(entry, at, "Type", str), self.get(entry, at, "MemoryType", str)
        dtype, width = self._dtype(kind, at)
        if memory == "Scalar":
            if width != 1 or kind == "bool":
                self.fail(f"{at} is a scalar of type {kind}; numbers are supported")
            value = self.get(entry, at, "FillValue", int | float)
            return int(value) if dtype.kind in "iu" and float(value).is_integer() else value
        if memory == "Local":
            return self._size(entry, at) * width
        if memory != "Vector":
            self.fail(f"{at}.MemoryType is {memory!r}; Scalar, Vector and Local are supported")
        return self._filled(entry, at, dtype, self._size(entry, at) * width)

    def _filled(self, entry: Mapping[str, Any], at: str, dtype: np.dtype[Any], count: int) -> NDArray[Any]:
        """``count`` numbers, filled by the entry's FillType."""
        if count * dtype.itemsize > _most_bytes():
            self.fail(f"{at} has {count} elements of type {dtype}, which is more than half of this machine's memory")
        fill = entry.get("FillType", "Constant")
        value = entry.get("FillValue")
        if not isinstance(value, int | float | None):
            self.fail(f"{at}.FillValue is {value!r}, not a number")
        if fill == "BinaryRaw":
            return self._raw(self.path.parent / self.file(entry, at, "DataSource"), at, dtype, count)
        seed = entry.get("RandomSeed", _SEED)
        if not isinstance(seed, int) or seed < 0:
            self.fail(f"{at}.RandomSeed is {seed!r}, not a non-negative integer")
        try:
            if fill == "Constant":
                return np.full(count, 0 if value is None else value, dtype)
            if fill == "Random":
                return _random(np.random.default_rng(seed), 1 if value is None else value, dtype, count)
        except (OverflowError, ValueError):
            self.fail(f"{at}.FillValue is {value!r}, which is too large or too small for {dtype}")
        self.fail(f"{at}.FillType is {fill!r}; Constant, Random and BinaryRaw are supported")

    def _raw(self, file: Path, at: str, dtype: np.dtype[Any], count: int) -> NDArray[Any]:
        try:
            size = bounded_reading.regular_file(file).stat().st_size
            array = np.fromfile(file, dtype) if size == count * dtype.itemsize else np.empty(size // dtype.itemsize, dtype)
        except (OSError, ValueError) as error:
            self.fail(f"{at}.DataSource {file} cannot be read: {reason(error)}")
        if array.size != count:
            self.fail(f"{at}.DataSource {file} holds {array.size} numbers of type {dtype}, not {count}")
        return array

    def _dtype(self, kind: str, at: str) -> tuple[np.dtype[Any], int]:
        """The element type of a T1 type, and how many of them it has: 4 for float4."""
        vector = _VECTOR.fullmatch(kind)
        plain, width = (vector[1], int(vector[2])) if vector else (kind, 1)
        if plain not in _TYPES:
            self.fail(f"{at}.Type is {kind!r}; supported are {', '.join(_TYPES)} and vectors of the floating-point ones")
        return np.dtype(_TYPES[plain]), width

    def _size(self, entry: Mapping[str, Any], at: str) -> int:
        """A number of elements. Expressions may use ProblemSize, and each parameter's name for the list of its values."""
        given = self.get(entry, at, "Size", int | str)
        names = {"ProblemSize": self._problem_size(), **self.parameters}
        size = self.evaluate(given, f"{at}.Size", names) if isinstance(given, str) else given
        if not isinstance(size, int | float) or not 0 < size < math.inf or size != int(size):
            self.fail(f"{at}.Size is {given!r}, not a positive integer")
        if size > _MOST_ELEMENTS:
            self.fail(f"{at}.Size is {int(size)}; up to {_MOST_ELEMENTS} elements are supported")
        return int(size)

    def _role(self, entry: Mapping[str, Any], at: str) -> str | None:
        if entry.get("MemoryType") != "Vector" or "AccessType" not in entry:
            return None
        if not isinstance(entry["AccessType"], str) or entry["AccessType"] not in _ROLES:
            self.fail(f"{at}.AccessType is {entry['AccessType']!r}; it must be one of {', '.join(_ROLES)}")
        return _ROLES[entry["AccessType"]]

    def _references(self, names: Sequence[Any], values: Sequence[Any]) -> dict[int, Reference]:
        """The references by the argument's position. AbsoluteDifference, a bound on the sum of differences, is applied to each element."""
        references: dict[int, Reference] = {}
        for entry, at in self.list(self.kernel, _KERNEL, "ReferenceArguments"):
            target = self.get(entry, at, "TargetName", str)
            if target not in names or not isinstance(values[names.index(target)], np.ndarray):
                self.fail(f"{at}.TargetName is {target!r}, which is not a vector among the Arguments")
            place = names.index(target)
            method, threshold = entry.get("ValidationMethod", "SideBySideComparison"), entry.get("ValidationThreshold", 1e-4)
            if method not in _METHODS or not isinstance(threshold, int | float) or threshold < 0:
                self.fail(f"{at}: ValidationMethod must be one of {', '.join(_METHODS)}, ValidationThreshold a number of 0 or more")
            expected = self._filled(entry, at, values[place].dtype, values[place].size)
            relative = method == "SideBySideRelativeComparison"
            references[place] = Reference(expected, threshold if relative else 0.0, 0.0 if relative else threshold)
        return references

    def _budget(self) -> Budget | None:
        """The file's budget; a fraction of the space becomes a number of configurations."""
        seconds, evaluations = None, None
        for entry, at in self.list(self.document, "", "Budget"):
            kind, value = self.get(entry, at, "Type", str), self.get(entry, at, "BudgetValue", int | float)
            if value <= 0:
                self.fail(f"{at}.BudgetValue is {value}; it must be positive")
            if kind == "TuningDuration":
                seconds = float(value)
            elif kind == "ConfigurationCount":
                evaluations = math.ceil(value)
            elif kind == "ConfigurationFraction":
                evaluations = max(math.ceil(value * math.prod(map(len, self.parameters.values()))), 1)
            else:
                self.fail(f"{at}.Type is {kind!r}; it must be TuningDuration, ConfigurationCount or ConfigurationFraction")
        return None if seconds is None and evaluations is None else Budget(seconds, evaluations)


def _most_bytes() -> int:
    """The largest array to fill: half of the machine's memory, 8 GiB if the system does not report it."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    except (AttributeError, ValueError, OSError):  # no sysconf on this system
        return 2**33


def _random(rng: np.random.Generator, most: float, dtype: np.dtype[Any], count: int) -> NDArray[Any]:
    """``count`` uniform random numbers from 0 to ``most``, both included for integers."""
    if dtype.kind == "f":
        return (rng.random(count) * most).astype(dtype)
    return rng.integers(min(0, int(most)), max(0, int(most)), count, dtype, endpoint=True)
