"""T1 files: the JSON in which Kernel Tuner, KTT and the benchmarks around them describe a tuning problem.

What is read: ``ConfigurationSpace`` (``TuningParameters`` with ``Name``, ``Type``, ``Values``, ``Default``; ``Conditions``);
``KernelSpecification`` (``Language`` OpenCL, ``KernelName``, ``KernelFile``, ``CompilerOptions``, ``Arguments``, ``ReferenceArguments``,
``LocalSize``, ``GlobalSize`` with ``GlobalSizeType``, or Kernel Tuner's ``ProblemSize`` with ``GridDivX``, ``GridDivY``, ``GridDivZ``);
``Budget``. Expressions are looked through before they are evaluated: a file can calculate, and call nothing.
"""

from __future__ import annotations

import ast
import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from portatile.errors import ArgumentError, reason
from portatile.formats import calculation, limits
from portatile.records import Config, Value
from portatile.space import ParameterSpace
from portatile.trials import Budget

_FUNCTIONS: Mapping[str, Any] = {"abs": abs, "ceil": math.ceil, "float": float, "floor": math.floor, "int": int, "len": len, "list": list}
_FUNCTIONS = {**_FUNCTIONS, "max": max, "min": min, "range": range, "round": round, "sum": sum}
_OPERATIONS = (ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.operator, ast.unaryop, ast.boolop, ast.cmpop)
_LISTS = (ast.List, ast.Tuple, ast.ListComp, ast.GeneratorExp, ast.comprehension, ast.Subscript)
_NODES = (*_OPERATIONS, *_LISTS, ast.Expression, ast.Constant, ast.Name, ast.Call, ast.expr_context)

_TYPES = {"bool": "uint8", "half": "float16", "float": "float32", "double": "float64"}
_TYPES |= {f"{sign}int{bits}": f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
_VECTOR = re.compile(r"(half|float|double)(2|4|8|16)")
_ROLES = {"ReadOnly": "in", "WriteOnly": "out", "ReadWrite": "inout"}
_METHODS = ("AbsoluteDifference", "SideBySideComparison", "SideBySideRelativeComparison")
_AXES = ("X", "Y", "Z")
_KERNEL = "KernelSpecification"
_SEED = 0
_LONGEST = 400  # characters of a message
_MOST_ELEMENTS = 2**31 - 1  # of an argument


@dataclass(frozen=True)
class Reference:
    """What an output must hold, and how near: ``rtol`` relative to it, ``atol`` absolute."""

    values: NDArray[Any]
    rtol: float
    atol: float


@dataclass(frozen=True)
class Specification:
    """What a T1 file asks for, in the terms of ``portatile.Kernel``.

    ``arguments`` and ``roles`` are in the order of the kernel's own, whatever the file calls them; ``references`` goes by their
    place. ``budget`` is the file's own, if it has one.
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
    """The specification in a T1 file; ``KernelFile`` and data files are looked for beside it.

    Arrays with ``FillType`` Constant hold ``FillValue``, Random ones numbers from 0 to ``FillValue`` (1 where it is not given) drawn
    with ``RandomSeed``; BinaryRaw ones come from ``DataSource``. Raises ArgumentError that says where in the file something is
    missing, wrong or not supported.
    """
    try:
        document = limits.decoded(limits.raw(path))
    except ValueError as error:
        raise error if isinstance(error, ArgumentError) else ArgumentError(f"{path} is not JSON: {error}") from None
    if not isinstance(document, Mapping) or not {"KernelSpecification", "ConfigurationSpace"} <= set(document):
        raise ArgumentError(f"{path} is no T1 file: it lacks ConfigurationSpace or KernelSpecification")
    return _Reader(path, document).specification()


class _Reader:
    """One file; ``at`` in its methods is a place inside it, for messages."""

    def __init__(self, path: Path, document: Mapping[str, Any]) -> None:
        self.path = path
        self.document = document
        self.space = self._get(document, "", "ConfigurationSpace", Mapping)
        self.kernel = self._get(document, "", "KernelSpecification", Mapping)
        self.parameters: dict[str, tuple[Value, ...]] = {}

    def specification(self) -> Specification:
        """Everything that the file says."""
        if (language := self._get(self.kernel, _KERNEL, "Language", str)) != "OpenCL":
            self._fail(f"{_KERNEL}.Language is {language!r}; portatile takes OpenCL C, which it runs through OpenCL and through CUDA")
        if self.kernel.get("SharedMemory"):
            self._fail(f"{_KERNEL}.SharedMemory is CUDA's dynamic memory; declare a __local argument and give it MemoryType Local")
        default = self._read_parameters()
        constraints = tuple(self._condition(entry, at) for entry, at in self._list(self.space, "ConfigurationSpace", "Conditions"))
        arguments = self._list(self.kernel, _KERNEL, "Arguments")
        values = tuple(self._argument(entry, at) for entry, at in arguments)
        local = self._local_size()
        legal = ParameterSpace(self.parameters, constraints)
        return Specification(
            kernel_file=limits.regular(self.path.parent / self._file(self.kernel, _KERNEL, "KernelFile")),
            kernel=self._get(self.kernel, _KERNEL, "KernelName", str),
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

    # The space

    def _read_parameters(self) -> Config | None:
        """Fill ``parameters``; the file's default configuration comes back, if it has a value for each."""
        default: dict[str, Value] = {}
        for entry, at in self._list(self.space, "ConfigurationSpace", "TuningParameters"):
            name = self._get(entry, at, "Name", str)
            if not name.isidentifier():
                self._fail(f"{at}.Name is {name!r}; a parameter's name is a word that an expression can read")
            kind = self._get(entry, at, "Type", str)
            values = self._evaluate(self._get(entry, at, "Values", str), f"{at}.Values", {})
            if not isinstance(values, list | tuple) or not values or not all(isinstance(v, int | float | str) for v in values):
                self._fail(f"{at}.Values is {entry['Values']!r}; it must be a list of numbers or strings")
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
        self._fail(f"{at}: {value!r} is no value of type {kind!r} (int, uint, float, bool or string)")

    def _condition(self, entry: Mapping[str, Any], at: str) -> str:
        return self._expression(self._get(entry, at, "Expression", str), f"{at}.Expression", self.parameters)

    # The launch

    def _local_size(self) -> tuple[str, ...]:
        sizes = self._get(self.kernel, _KERNEL, "LocalSize", Mapping)
        return self._axes(sizes, f"{_KERNEL}.LocalSize", self.parameters)

    def _global_size(self, local: tuple[str, ...]) -> tuple[str, ...]:
        """Work-items. Where there are divisors of the grid, they and ProblemSize count, as in Kernel Tuner, and GlobalSize does not."""
        problem = self._problem_size()
        divisors = [self.kernel.get(f"GridDiv{axis}") for axis in _AXES]
        for name, given in zip(_AXES, divisors, strict=True):
            if given is not None and not isinstance(given, list):
                self._fail(f"{_KERNEL}.GridDiv{name} is {given!r}; it must be a list of expressions")
        if problem and any(divisors):
            found = []
            for axis, size in enumerate(problem):
                group = local[axis] if axis < len(local) else "1"
                by = divisors[axis]
                terms = [self._expression(str(term), f"{_KERNEL}.GridDiv{_AXES[axis]}", self.parameters) for term in by or (group,)]
                found.append(f"ceil({size} / ({' * '.join(f'({term})' for term in terms)})) * ({group})")
            return tuple(found)
        sizes = self._get(self.kernel, _KERNEL, "GlobalSize", Mapping)
        items = self._axes(sizes, f"{_KERNEL}.GlobalSize", self.parameters)
        kind = self.kernel.get("GlobalSizeType", "OpenCL")
        if kind == "OpenCL":
            return items
        if kind not in ("CUDA", "Vulkan"):
            self._fail(f"{_KERNEL}.GlobalSizeType is {kind!r}; it must be OpenCL (work-items), CUDA or Vulkan (work-groups)")
        groups = (*local, *("1",) * 3)
        return tuple(f"({count}) * ({group})" for count, group in zip(items, groups, strict=False))

    def _axes(self, sizes: Mapping[str, Any], at: str, known: Mapping[str, object]) -> tuple[str, ...]:
        """X, Y and Z as far as they are given."""
        if "X" not in sizes:
            self._fail(f"{at}.X is missing")
        given = [axis for axis in _AXES if axis in sizes]
        if given != list(_AXES[: len(given)]):
            self._fail(f"{at} has {', '.join(given)}; Y goes before Z")
        return tuple(self._expression(str(sizes[axis]), f"{at}.{axis}", known) for axis in given)

    def _problem_size(self) -> tuple[int, ...]:
        given = self.kernel.get("ProblemSize")
        if given is None:
            return ()
        sizes = given if isinstance(given, list) else [given]
        if len(sizes) > 3 or not all(isinstance(size, int) and size > 0 for size in sizes):
            self._fail(f"{_KERNEL}.ProblemSize is {given!r}; it must be one to three positive whole numbers")
        return tuple(sizes)

    # Arguments

    def _argument(self, entry: Mapping[str, Any], at: str) -> Any:
        kind, memory = self._get(entry, at, "Type", str), self._get(entry, at, "MemoryType", str)
        dtype, width = self._dtype(kind, at)
        if memory == "Scalar":
            if width != 1 or kind == "bool":
                self._fail(f"{at} is a scalar of type {kind}; numbers are supported")
            value = self._get(entry, at, "FillValue", int | float)
            return int(value) if dtype.kind in "iu" and float(value).is_integer() else value
        if memory == "Local":
            return self._size(entry, at) * width
        if memory != "Vector":
            self._fail(f"{at}.MemoryType is {memory!r}; Scalar, Vector and Local are supported")
        return self._filled(entry, at, dtype, self._size(entry, at) * width)

    def _filled(self, entry: Mapping[str, Any], at: str, dtype: np.dtype[Any], count: int) -> NDArray[Any]:
        """``count`` numbers as FillType says."""
        if count * dtype.itemsize > _most_bytes():
            self._fail(f"{at} has {count} elements of type {dtype}, which is more than half of this machine's memory")
        fill = entry.get("FillType", "Constant")
        value = entry.get("FillValue")
        if not isinstance(value, int | float | None):
            self._fail(f"{at}.FillValue is {value!r}, not a number")
        if fill == "BinaryRaw":
            return self._raw(self.path.parent / self._file(entry, at, "DataSource"), at, dtype, count)
        seed = entry.get("RandomSeed", _SEED)
        if not isinstance(seed, int) or seed < 0:
            self._fail(f"{at}.RandomSeed is {seed!r}, not a whole number of 0 or more")
        try:
            if fill == "Constant":
                return np.full(count, 0 if value is None else value, dtype)
            if fill == "Random":
                return _random(np.random.default_rng(seed), 1 if value is None else value, dtype, count)
        except (OverflowError, ValueError):
            self._fail(f"{at}.FillValue is {value!r}, which is too large or too small for {dtype}")
        self._fail(f"{at}.FillType is {fill!r}; Constant, Random and BinaryRaw are supported")

    def _raw(self, file: Path, at: str, dtype: np.dtype[Any], count: int) -> NDArray[Any]:
        try:
            size = limits.regular(file).stat().st_size
            found = np.fromfile(file, dtype) if size == count * dtype.itemsize else np.empty(size // dtype.itemsize, dtype)
        except (OSError, ValueError) as error:
            self._fail(f"{at}.DataSource {file} cannot be read: {reason(error)}")
        if found.size != count:
            self._fail(f"{at}.DataSource {file} holds {found.size} numbers of type {dtype}, not {count}")
        return found

    def _dtype(self, kind: str, at: str) -> tuple[np.dtype[Any], int]:
        """The element type and how many elements one of the file's has."""
        vector = _VECTOR.fullmatch(kind)
        plain, width = (vector[1], int(vector[2])) if vector else (kind, 1)
        if plain not in _TYPES:
            self._fail(f"{at}.Type is {kind!r}; supported are {', '.join(_TYPES)} and vectors of the floating-point ones")
        return np.dtype(_TYPES[plain]), width

    def _size(self, entry: Mapping[str, Any], at: str) -> int:
        """A count of elements; expressions may read ProblemSize, and of each parameter all of its values."""
        given = self._get(entry, at, "Size", int | str)
        names = {"ProblemSize": self._problem_size(), **self.parameters}
        size = self._evaluate(given, f"{at}.Size", names) if isinstance(given, str) else given
        if not isinstance(size, int | float) or not 0 < size < math.inf or size != int(size):
            self._fail(f"{at}.Size is {given!r}, not a positive whole number")
        if size > _MOST_ELEMENTS:
            self._fail(f"{at}.Size is {int(size)}; up to {_MOST_ELEMENTS} elements are supported")
        return int(size)

    def _role(self, entry: Mapping[str, Any], at: str) -> str | None:
        if entry.get("MemoryType") != "Vector" or "AccessType" not in entry:
            return None
        if not isinstance(entry["AccessType"], str) or entry["AccessType"] not in _ROLES:
            self._fail(f"{at}.AccessType is {entry['AccessType']!r}; it must be one of {', '.join(_ROLES)}")
        return _ROLES[entry["AccessType"]]

    def _references(self, names: Sequence[Any], values: Sequence[Any]) -> dict[int, Reference]:
        """By the place of the argument. AbsoluteDifference, a bound on the sum of all differences, is applied to each."""
        found: dict[int, Reference] = {}
        for entry, at in self._list(self.kernel, _KERNEL, "ReferenceArguments"):
            target = self._get(entry, at, "TargetName", str)
            if target not in names or not isinstance(values[names.index(target)], np.ndarray):
                self._fail(f"{at}.TargetName is {target!r}, which is no vector among the Arguments")
            place = names.index(target)
            method, threshold = entry.get("ValidationMethod", "SideBySideComparison"), entry.get("ValidationThreshold", 1e-4)
            if method not in _METHODS or not isinstance(threshold, int | float) or threshold < 0:
                self._fail(f"{at}: ValidationMethod must be one of {', '.join(_METHODS)}, ValidationThreshold a number of 0 or more")
            wanted = self._filled(entry, at, values[place].dtype, values[place].size)
            relative = method == "SideBySideRelativeComparison"
            found[place] = Reference(wanted, threshold if relative else 0.0, 0.0 if relative else threshold)
        return found

    def _budget(self) -> Budget | None:
        """The file's budget; a fraction of the space is counted out."""
        seconds, evaluations = None, None
        for entry, at in self._list(self.document, "", "Budget"):
            kind, value = self._get(entry, at, "Type", str), self._get(entry, at, "BudgetValue", int | float)
            if value <= 0:
                self._fail(f"{at}.BudgetValue is {value}; it must be positive")
            if kind == "TuningDuration":
                seconds = float(value)
            elif kind == "ConfigurationCount":
                evaluations = math.ceil(value)
            elif kind == "ConfigurationFraction":
                evaluations = max(math.ceil(value * math.prod(map(len, self.parameters.values()))), 1)
            else:
                self._fail(f"{at}.Type is {kind!r}; it must be TuningDuration, ConfigurationCount or ConfigurationFraction")
        return None if seconds is None and evaluations is None else Budget(seconds, evaluations)

    # Fields and expressions

    def _get(self, record: Mapping[str, Any], at: str, name: str, kind: Any) -> Any:
        """A field that must be there and be of a kind."""
        place = f"{at}.{name}" if at else name
        if name not in record:
            self._fail(f"{place} is missing")
        if not isinstance(record[name], kind) or isinstance(record[name], bool):
            self._fail(f"{place} is {record[name]!r}; that is not what belongs there")
        return record[name]

    def _file(self, record: Mapping[str, Any], at: str, name: str) -> str:
        """The name of a file, which has no control characters."""
        given: str = self._get(record, at, name, str)
        if not given or not given.isprintable():
            self._fail(f"{at}.{name} is {given!r}, which is no name of a file")
        return given

    def _list(self, record: Mapping[str, Any], at: str, name: str) -> list[tuple[Mapping[str, Any], str]]:
        """The records of a list with their places; none where the list is not there."""
        place = f"{at}.{name}" if at else name
        given = record.get(name)
        given = [] if given is None else given
        if not isinstance(given, list) or not all(isinstance(entry, Mapping) for entry in given):
            self._fail(f"{place} must be a list of objects")
        return [(entry, f"{place}[{number}]") for number, entry in enumerate(given)]

    def _expression(self, text: str, at: str, known: Mapping[str, object]) -> str:
        """An expression of Python that can only calculate, with ``&&`` and ``||`` as words; fails for anything else."""
        if len(text) > calculation.MOST_CHARACTERS:
            self._fail(f"{at} is an expression of {len(text)} characters; up to {calculation.MOST_CHARACTERS} are read")
        spelled = " ".join(text.replace("&&", " and ").replace("||", " or ").split())
        try:
            tree = ast.parse(spelled, mode="eval")
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:  # a NUL, parentheses nested too deeply
            self._fail(f"{at}: {_short(text)} is not an expression: {getattr(error, 'msg', error) or 'it is nested too deeply'}")
        names = [node.id for node in ast.walk(tree) if isinstance(node, ast.Name)]
        bound = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
        for node in ast.walk(tree):
            if not isinstance(node, _NODES) or (isinstance(node, ast.Call) and not _is_plain(node)):
                self._fail(f"{at}: {text!r} does more than calculate; there are the functions {', '.join(_FUNCTIONS)}")
        for name in names:
            if name not in known and name not in bound and name not in _FUNCTIONS:
                self._fail(f"{at}: {text!r} reads {name!r}, which is none of {', '.join(known) or 'the parameters'}")
        try:
            calculation.check(tree, {name: values if isinstance(values, tuple) else () for name, values in known.items()})
        except calculation.TooMuchError as error:
            self._fail(f"{at}: {_short(text)} calculates too much: {error}")
        return spelled

    def _evaluate(self, text: str, at: str, names: Mapping[str, Any]) -> Any:
        code = compile(self._expression(text, at, names), "<T1>", "eval")
        try:
            return eval(code, {"__builtins__": {}, **_FUNCTIONS, **names})
        except Exception as error:
            self._fail(f"{at}: {_short(text)} cannot be computed: {type(error).__name__}: {error}")

    def _fail(self, message: str) -> NoReturn:
        raise ArgumentError(f"{self.path}: {message if len(message) <= _LONGEST else message[:_LONGEST] + ' ...'}")


def _most_bytes() -> int:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    except (AttributeError, ValueError, OSError):  # not on this system
        return 2**33


def _short(text: str) -> str:
    return repr(text if len(text) <= 80 else text[:77] + "...")


def _random(rng: np.random.Generator, most: float, dtype: np.dtype[Any], count: int) -> NDArray[Any]:
    """Numbers from 0 to ``most``."""
    if dtype.kind == "f":
        return (rng.random(count) * most).astype(dtype)
    return rng.integers(min(0, int(most)), max(0, int(most)), count, dtype, endpoint=True)


def _is_plain(call: ast.Call) -> bool:
    """Whether a call is one of the functions there are, with plain arguments."""
    starred = any(isinstance(argument, ast.Starred) for argument in call.args)
    return isinstance(call.func, ast.Name) and call.func.id in _FUNCTIONS and not call.keywords and not starred
