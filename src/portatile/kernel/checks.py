"""The expected outputs of a user's kernel, and their tolerances."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from portatile.errors import ArgumentError, UnknownNameError
from portatile.kernel.arguments import Array
from portatile.kernel.elements import flat
from portatile.kernel.expression import argument_names, identity, spelt
from portatile.records import canonical, digest
from portatile.verify import REDUCTIONS
from portatile.workload import Expected

Reference = Callable[..., Any] | Mapping[str, Any] | Sequence[Any] | NDArray[Any]
Tolerance = float | Mapping[str, float] | None

RTOL = {"float16": 1e-2, "float32": 1e-4, "float64": 1e-10}
"""The default relative tolerance by dtype; integers must be equal."""


@dataclass(frozen=True)
class Checks:
    """A reference and its tolerances. Without a reference (None) outputs are not compared.

    For the outputs in ``reductions`` only the sum, minimum or maximum of all elements is compared. ``known``: the names that a callable
    reference may read.
    """

    reference: Reference | None
    rtol: Tolerance
    atol: Tolerance
    reductions: Mapping[str, str] = field(default_factory=dict)
    known: Sequence[str] = ()

    @property
    def reads(self) -> tuple[str, ...]:
        """The names of the arguments that the reference reads."""
        return argument_names(self.reference, "reference", self.known) if callable(self.reference) else ()

    def check(self, outputs: Sequence[Array]) -> None:
        """Raise ArgumentError or UnknownNameError for mistakes in reference, tolerances and reductions that can be found without a call."""
        names = [array.name for array in outputs]
        self._check_reductions({array.name: array for array in outputs})
        for kind, tolerance in (("rtol", self.rtol), ("atol", self.atol)):
            for name, value in tolerance.items() if isinstance(tolerance, Mapping) else ((None, tolerance),):
                if name is not None and name not in names:
                    raise UnknownNameError(f"output in {kind}", name, names)
                if value is not None and not (isinstance(value, int | float | np.number) and 0 <= value < np.inf):
                    raise ArgumentError(f"{kind}={value!r} must be a number, 0 or more")
        if callable(self.reference):
            for name in self.reads:
                if name not in self.known:
                    raise UnknownNameError("argument of the reference", name, self.known)
        elif self.reference is not None:
            self._by_name(self.reference, outputs)

    def _check_reductions(self, outputs: Mapping[str, Array]) -> None:
        for name, reduction in self.reductions.items():
            if name not in outputs:
                raise UnknownNameError("output in reductions", name, outputs)
            if reduction not in REDUCTIONS:
                raise UnknownNameError("reduction", reduction, REDUCTIONS)
            if outputs[name].value.dtype.kind == "c":
                raise ArgumentError(f"{name} is complex; only the elements of real outputs are reduced")

    def expected(self, outputs: Sequence[Array], values: Mapping[str, Any]) -> dict[str, Expected]:
        """The expected content of each output; ``values`` are copies of the arguments, which the reference may overwrite.

        Raises ArgumentError for a reference that returns anything else than the outputs need.
        """
        if self.reference is None:
            return {}
        result: Any = self.reference
        if callable(self.reference):
            result = self.reference(*(values[name] for name in self.reads))
            if result is None:
                raise ArgumentError(f"the reference ({spelt(self.reference)}) returns None; it must return what the outputs must hold")
        results = self._by_name(result, outputs)
        return {array.name: self._expected(array, results[array.name]) for array in outputs if results[array.name] is not None}

    def identity(self) -> str:
        """A digest that changes with the reference and its tolerances; expected values given as arrays are not included."""
        if self.reference is None:
            return "unverified"
        what = identity(self.reference) if callable(self.reference) else "arrays"
        reductions = (canonical(dict(self.reductions)),) if self.reductions else ()
        return digest(what, *(canonical(dict(t) if isinstance(t, Mapping) else t) for t in (self.rtol, self.atol)), *reductions)

    def _by_name(self, result: Any, outputs: Sequence[Array]) -> dict[str, Any]:
        """Expected values by the name of the output."""
        names = [array.name for array in outputs]
        if isinstance(result, Mapping):
            for name in result:
                if name not in names:
                    raise UnknownNameError("output in the reference", str(name), names)
            if missing := [name for name in names if name not in result]:
                raise ArgumentError(f"the reference has no value for {', '.join(missing)}; None leaves an output unchecked")
            expected = dict(result)
        elif isinstance(result, tuple) or (isinstance(result, list) and len(names) > 1):
            if len(result) != len(names):
                raise ArgumentError(f"the reference gives {len(result)} arrays; the outputs are {', '.join(names)}")
            expected = dict(zip(names, result, strict=True))
        elif len(names) == 1:
            expected = {names[0]: result}
        else:
            raise ArgumentError(f"the reference must give a value for each of {', '.join(names)}, in a dict or in this order")
        if all(value is None for value in expected.values()):
            raise ArgumentError("the reference leaves every output unchecked")
        for array in outputs:
            size = None if expected[array.name] is None else np.size(expected[array.name])
            if size not in (None, array.value.size) and not (size == 1 and array.name in self.reductions):
                shapes = f"shape {np.shape(expected[array.name])}, the argument has {array.value.shape}"
                advice = "; reductions={" + repr(array.name) + ": 'sum'} compares the sum of its elements" if size == 1 else ""
                raise ArgumentError(f"the reference gives {array.name} {shapes}{advice}")
        return expected

    def _expected(self, array: Array, of_reference: Any) -> Expected:
        """Values with the allowed error as their scale, without masked elements."""
        mask = np.ma.getmaskarray(of_reference) if isinstance(of_reference, np.ma.MaskedArray) else None
        plain = np.asarray(np.ma.getdata(of_reference) if mask is not None else of_reference)
        if plain.dtype.kind not in "biufc" or (plain.dtype.kind == "c" and array.value.dtype.kind != "c"):
            raise ArgumentError(f"the reference gives {array.name} as {plain.dtype}; it must hold numbers like {array.value.dtype}")
        kind = np.complex128 if array.value.dtype.kind == "c" else np.float64
        values = flat(np.ascontiguousarray(plain, kind))
        reduction = self.reductions.get(array.name, "")
        if reduction:
            if mask is not None:
                raise ArgumentError(f"the reference masks elements of {array.name}, of which only the {reduction} is compared")
            values = np.atleast_1d(REDUCTIONS[reduction](values))
        rtol, atol = self._tolerances(array, values)
        with np.errstate(invalid="ignore"):
            scale = atol + rtol * np.abs(values)
        scale[~np.isfinite(scale)] = 0.0
        if mask is None:
            return Expected(values, scale, reduction=reduction)
        pairs = np.repeat(mask.reshape(-1), 2) if kind is np.complex128 else mask.reshape(-1)
        places = np.flatnonzero(~pairs).astype(np.int64)
        return Expected(values[places], scale[places], places)

    def _tolerances(self, array: Array, values: NDArray[np.float64]) -> tuple[float, float]:
        """rtol and atol of an output. The default atol is a tenth of rtol times the largest value: values near 0 come from cancellation."""
        rtol = self.rtol.get(array.name) if isinstance(self.rtol, Mapping) else self.rtol
        atol = self.atol.get(array.name) if isinstance(self.atol, Mapping) else self.atol
        relative = RTOL.get(array.dtype, 0.0) if rtol is None else float(rtol)
        finite = np.abs(values[np.isfinite(values)])
        return relative, 0.1 * relative * float(finite.max(initial=0.0)) if atol is None else float(atol)
