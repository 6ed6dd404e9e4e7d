"""The arguments with which a user's kernel is checked: those of its definition, as they were before any call, and edge cases."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from portatile.arguments.host_tensors import as_arrays
from portatile.errors import ArgumentError
from portatile.kernel import arguments, elements
from portatile.kernel.arguments import Argument, Arguments, Array, Packed, Scalar
from portatile.records import Problem
from portatile.verify import compare, poison
from portatile.workload import Expected, Inputs

Given = Sequence[Any] | Mapping[str, Any]
Shapes = dict[str, tuple[int, ...]]


class KernelCases:
    """The sets of arguments for checks: ``defined``, those of the definition, and ``awkward``, edge cases of other sizes.

    Each edge case is given as for a call. Raises ArgumentError for one that does not match the kernel, or has the sizes of another.
    """

    def __init__(self, defined: Arguments, awkward: Sequence[Given], kernel: str) -> None:
        if isinstance(awkward, str | np.ndarray | Mapping) or not all(isinstance(case, Sequence | Mapping) for case in awkward):
            raise ArgumentError(f"awkward must be a list of arguments for calls of {kernel}, each a list, a tuple or a dict")
        self.defined = defined
        self.awkward = tuple(_called(defined, case, kernel) for case in awkward)
        self.sizes = tuple((case.integers(case.scalars), shapes(case)) for case in self.awkward)
        """The integers and shapes of each case, which must differ between cases."""
        own = defined.integers(defined.scalars), shapes(defined)
        for place, sizes in enumerate(self.sizes):
            if sizes in (own, *self.sizes[:place]):
                raise ArgumentError(f"awkward[{place}] of {kernel} has the same sizes as other checked arguments; change a size")
        self._by_key: dict[str, Arguments] = {}
        self._kept: dict[str, Array] = {}

    def make_problems(self, problem: Callable[[Mapping[str, int], Shapes], Problem]) -> None:
        """Make the problem of each edge case by ``problem``, from its integers and shapes."""
        self.problems = [problem(integers, places) for integers, places in self.sizes]
        self._by_key = {edge_case.key: case for edge_case, case in zip(self.problems, self.awkward, strict=True)}

    def of(self, problem: Problem) -> Arguments:
        """The arguments of a problem: the definition's, unless it is an edge case."""
        return self._by_key.get(problem.key, self.defined)

    def keep(self, values: Mapping[str, Any]) -> None:
        """Copy the arrays of the definition that a call is about to write: the expected results are those of their old content."""
        for array in self.defined.outputs:
            value, needed = values[array.name], array.role == "inout" and array.name not in self._kept
            if needed and isinstance(value, np.ndarray) and np.may_share_memory(value, array.value):
                self._kept[array.name] = replace(array, value=array.value.copy())

    def arrays(self, problem: Problem) -> tuple[Array, ...]:
        """The arrays of a problem with their content before a run."""
        case = self.of(problem)
        return case.arrays if case is not self.defined else tuple(self._kept.get(array.name, array) for array in case.arrays)

    def inputs(self, problem: Problem) -> Inputs:
        """The memory of each array; an ``out`` array is poisoned."""
        memory = {array.name: array.memory for array in self.arrays(problem)}
        for array in self.of(problem).arrays:
            if array.role == "out":
                memory[array.name] = poison(array.memory.dtype, array.memory.size)
        return Inputs(memory)

    def already_right(self, problem: Problem, expected: Mapping[str, Expected]) -> str:
        """The names of the outputs if all of them hold the expected values before the kernel runs, so that no failure would be noticed;
        else empty.

        Always empty for an edge case: the arguments of the definition are checked as well.
        """
        if self.of(problem) is not self.defined:
            return ""
        outputs = [array for array in self.arrays(problem) if array.role != "in"]
        updated = [array for array in outputs if array.role == "inout" and array.name in expected]
        vain = len(updated) == len(outputs) and all(compare(a.memory, expected[a.name], 1.0).ok for a in updated)
        return ", ".join(array.name for array in updated) if vain else ""


def shapes(declared: Arguments) -> Shapes:
    """The shape of each array, and the integers in each vector and structure by value."""
    return of_values(declared, {argument.name: argument.value for argument in declared.valued})


def of_values(declared: Arguments, values: Mapping[str, Any]) -> Shapes:
    """The same for the arguments of a call."""
    given: Shapes = {array.name: tuple(getattr(values[array.name], "shape", ())) for array in declared.arrays}
    integers = ((packed.name, elements.whole_numbers(packed.given(values[packed.name]))) for packed in declared.packed)
    return given | {name: numbers for name, numbers in integers if numbers}


def spell_shapes(by_name: Mapping[str, tuple[int, ...]]) -> str:
    """The shapes in one line."""
    return " ".join(f"{name}[{','.join(map(str, shape))}]" for name, shape in by_name.items())


def _argument(declared: Argument, values: Mapping[str, Any]) -> Argument:
    """A declaration with its value in an edge case; raises ArgumentError."""
    if isinstance(declared, Scalar):
        return replace(declared, value=elements.scalar(values[declared.name], declared.name, declared.dtype))
    if isinstance(declared, Packed):
        return replace(declared, value=declared.given(values[declared.name]))
    if not isinstance(declared, Array):
        return declared
    value = values[declared.name]
    if declared.form is None:
        arguments.array(value, declared.name, declared.declared)
    elif (form := arguments.image(value, declared.name, declared.declared, declared.form.normalized)) != declared.form:
        raise ArgumentError(f"awkward: the image {declared.name} is {form}; images must be as in the definition, {declared.form}")
    if value.dtype != declared.value.dtype:
        raise ArgumentError(f"awkward: argument {declared.name} has dtype {value.dtype}; the definition has {declared.value.dtype}")
    return replace(declared, value=value)


def _called(defined: Arguments, of_user: Given, kernel: str) -> Arguments:
    of_user = as_arrays(of_user)
    named = of_user if isinstance(of_user, Mapping) else {}
    values = defined.bind(() if isinstance(of_user, Mapping) else tuple(of_user), named, kernel)
    return Arguments(tuple(_argument(declared, values) for declared in defined.all))
