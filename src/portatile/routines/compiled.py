"""A compiled problem: configuration, kernels and plan are fixed once, so that a call only checks its arrays and launches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from portatile import device as devices
from portatile import workloads
from portatile.arguments import checks, matrices, outputs
from portatile.arguments.checks import Precision
from portatile.arguments.matrices import Matrix
from portatile.device.base import Device
from portatile.device.buffer import Buffer, is_cuda_array
from portatile.device.dlpack import packed
from portatile.dtypes import numpy_type
from portatile.errors import ArgumentError, UnknownNameError
from portatile.formatting import spelled
from portatile.records import Layout, Problem, Value
from portatile.runtime.one_device.engine import BoundProblem, engine_of
from portatile.runtime.repeated.recorded import Planned, Recorder
from portatile.runtime.request import Request, RoutineCall
from portatile.select import Choice
from portatile.workloads import precisions

# The names of routines whose workload has another name, with the options that distinguish them.
ROUTINES: Mapping[str, tuple[str, Mapping[str, Value]]] = {
    "trsm": ("triangular", {}),
    "mri_q": ("mri", {"kind": "q"}),
    "mri_fhd": ("mri", {"kind": "fhd"}),
}
HOST_ALIGNMENT = 16  # required of host arrays that a device accesses in place


class Compiled:
    """A computation of one problem on one device, ready to run. Made by ``portatile.compile``; calls are thread-safe.

    ``problem`` says what the arrays must be, ``choice`` which configuration runs and why, ``device`` where. ``instead`` is computed while
    there is not enough memory for the problem's workspace.
    """

    def __init__(self, device: Device, problem: Problem, instead: Problem | None = None) -> None:
        workload = workloads.get(problem.workload)
        alignment = HOST_ALIGNMENT if device.info.unified_memory else matrices.MAX_ALIGNMENT
        layout = {name: Layout(stored.strides, stored.offset, alignment) for name, stored in problem.layout.items()}
        self.device = device
        self.problem = workload.problem(problem.sizes, problem.dtype, problem.options, layout)
        self._alignment = alignment
        self._workload = workload
        self._shapes = workload.shapes(self.problem)
        self._kinds = {name: numpy_type(workload.element(self.problem, name)) for name in self._shapes}
        outputs = [operand.name for operand in workload.operands_of(problem.options) if operand.role != "in"]
        if len(outputs) != 1:
            raise ArgumentError(f"{workload.name} has the outputs {', '.join(outputs)}; only computations with one can be compiled")
        self._output = outputs[0]
        self._order = (*(name for name in self._shapes if name != self._output), self._output)  # the output last, as a Request has it
        self._names = tuple(operand.name for operand in workload.operands_of(problem.options))
        self._expected = {
            name: (shape, packed(shape, self._kinds[name].itemsize), prod(shape[:-1]), shape[-1]) for name, shape in self._shapes.items()
        }
        self._addressed = device.info.can.addresses  # if so, wrapped arrays may begin anywhere
        self._absent = {name: self._nothing(name, shape) for name, shape in self._shapes.items()}
        self._scalars = dict(workload.scalars)
        self._usual = tuple(self._scalars.values())
        # number of operands before the output, if a call may pass only these
        self._inputs = len(self._names) - 1 if self._names[-1] == self._output and len(self._names) > 1 else -1
        self._recorder = Recorder(tuple(self._scalars), lasting=True)
        self._replays = self._recorder.replays
        self._engine = engine_of(device)
        if instead is not None:
            instead = replace(instead, layout=self.problem.layout)
        self._instead = instead
        self._prepared = self._engine.prepare_again(self.problem, instead)

    @property
    def choice(self) -> Choice:
        """The configuration that runs, and where it comes from."""
        return self._prepared.choice

    def __call__(self, *operands: Any, out: Any = None, **named: Any) -> Any:
        """Compute, and return the output.

        Operands are given in the workload's order or by name, scalars (``alpha``, ``beta``) by name; each operand is C-contiguous and has
        exactly the shape and dtype of the problem. All are NumPy arrays, or all are on the device (Buffers, or CUDA arrays of one library).
        The output is written to ``out``, which is another name for the output operand; if it is not given and only written, a new one is
        made. An operand that is not read with these scalars may be omitted. Raises ArgumentError or UnknownNameError, with what would be
        right.
        """
        if not named and len(operands) == self._inputs:  # most calls
            if out is None:
                if self._replays.made and (made := self._replays.make(operands, self._usual, (), None)) is not None:
                    return made
            elif self._replays.known and self._replays.run((*operands, out), self._usual, (), None):
                return out
            return self._recorder.look_up(self._plan, operands, self._usual, (), out, None)
        if len(operands) > len(self._names):
            raise ArgumentError(f"{len(operands)} operands; {self._workload.name} has {len(self._names)}: {', '.join(self._names)}")
        given = dict(zip(self._names, operands, strict=False))
        scalars = self._sort(named, given) if named else self._scalars
        if out is not None and given.setdefault(self._output, out) is not out:
            raise ArgumentError(f"out and {self._output} are both given and differ; both name the output: pass only one of them")
        result = given.get(self._output)
        arrays = tuple([given.get(name) for name in self._order[:-1]])
        return self._recorder.call(self._plan, arrays, tuple(scalars.values()), (), result, None)

    def _plan(self, call: RoutineCall) -> Planned:
        """The single request of a call, with its arrays in order; raises ArgumentError for what does not fit."""
        given = {name: array for name, array in zip(self._order, call.arrays, strict=False) if array is not None}
        if call.out is not None:
            given[self._output] = call.out
        scalars = dict(zip(self._scalars, call.factors, strict=True))
        read = self._reads(scalars)
        stored = [self._operand(name, given, needed) for name, needed in zip(self._order[:-1], read, strict=False)]
        result = self._make(given, read) if call.out is None else call.out
        stored.append(self._stored(self._output, result))
        self._check(stored)
        if not self._engine.fits(self.device):  # the device was released meanwhile
            self._engine = engine_of(self.device)
            self._prepared = self._engine.prepare(self.problem, self.choice, instead=self._instead)
        operands = tuple([matrix.read_if(needed) for matrix, needed in zip(stored, read, strict=True)])
        bound = BoundProblem(self._engine, self._prepared, self._order)
        return Planned(result, [Request(self.problem.workload, (), (), operands, result, scalars=scalars, bound=bound)])

    def __repr__(self) -> str:
        sizes = spelled({**self.problem.sizes, **self.problem.options})
        return f"<{self.problem.workload} {sizes} {self.problem.dtype} on {self.device.info.id}, {self.choice.reason}>"

    def _reads(self, scalars: Mapping[str, float]) -> tuple[bool, ...]:
        read = self._workload.reads(self.problem, scalars)
        return tuple(name in read for name in self._order)

    def _sort(self, named: Mapping[str, Any], given: dict[str, Any]) -> dict[str, float]:
        """Add named operands to ``given``; returns the scalars, with defaults."""
        scalars = dict(self._scalars)
        for name, value in named.items():
            if name in scalars:
                scalars[name] = checks.factor(value, name)
            elif name not in self._shapes:
                raise UnknownNameError(f"operand or scalar of {self._workload.name}", name, [*self._names, *scalars])
            elif name in given:
                raise ArgumentError(f"{name} is given twice")
            else:
                given[name] = value
        return scalars

    def _make(self, given: Mapping[str, Any], read: tuple[bool, ...]) -> Any:
        """A new output of the library of the first operand."""
        if read[-1]:
            raise ArgumentError(
                f"{self._output} is missing; it is read and overwritten: pass an array of shape {self._shapes[self._output]}"
            )
        model = next((array for array in given.values() if array is not None), None)
        if model is None:
            raise ArgumentError(f"no operands; {self._workload.name} takes {', '.join(self._names)}")
        kind = self._kinds[self._output]
        return outputs.new(model, self._shapes[self._output], None if kind == self._kinds[self._names[0]] else kind)

    def _operand(self, name: str, given: Mapping[str, Any], needed: bool) -> Matrix:
        array = given.get(name)
        if array is not None:
            return self._stored(name, array)
        if needed and self._absent[name].rows and given:
            raise ArgumentError(f"{name} is missing; it is read: pass an array of shape {self._shapes[name]}")
        return self._absent[name]

    def _stored(self, name: str, array: Any) -> Matrix:
        """An array as the rows of a packed matrix; raises ArgumentError unless it is exactly what the problem requires."""
        kind, (shape, strides, rows, columns) = type(array), self._expected[name]
        if kind is np.ndarray:
            flags = array.flags
            fits = flags.carray if name == self._output else flags.c_contiguous
            if not fits or array.shape != shape or array.dtype != self._kinds[name]:
                self._refuse(name, array)
            return Matrix(array, False, rows, columns, columns, 0, self._alignment)
        if kind is not Buffer:
            if not is_cuda_array(array):
                raise matrices.unknown(array, name)
            array = Buffer.wrap(array)
        if array.strides != strides or array.shape != shape or array.dtype != self._kinds[name]:
            self._refuse(name, array)
        checks.check_alive(array, name)
        memory = array.memory
        if memory.device is not self.device:
            raise ArgumentError(f"{name} is on {memory.device.info.id}; this was compiled for {self.device.info.id}")
        if array.offset or (self._addressed and memory.handle % self._alignment):
            raise ArgumentError(f"{name} begins inside its memory or at an address that is not a multiple of {self._alignment}; copy it")
        return Matrix(array, False, rows, columns, columns, 0, self._alignment)

    def _refuse(self, name: str, array: Any) -> None:
        shape, kind = self._shapes[name], self._kinds[name]
        if tuple(array.shape) != shape or array.dtype != kind:
            raise ArgumentError(
                f"{name} has shape {tuple(array.shape)} and dtype {array.dtype}; this was compiled for shape {shape} and {kind}"
            )
        checks.check_writable(array, name)
        raise ArgumentError(
            f"{name} is not C-contiguous and aligned; pass numpy.ascontiguousarray({name}), or use the routine, which takes views"
        )

    def _check(self, stored: list[Matrix]) -> None:
        """Raise ArgumentError for arrays on different devices or the host, and for an output that shares memory with an operand."""
        target = stored[-1]
        on_device = type(target.array) is Buffer
        given = [(name, one) for name, one in zip(self._order, stored, strict=True) if one is not self._absent[name]]
        for name, one in given:
            if (type(one.array) is Buffer) != (type(given[0][1].array) is Buffer):
                raise ArgumentError(f"{given[0][0]} and {name} are in different places, one on the host; move them to one")
        for name, other in given[:-1]:
            # without addresses, every array is a whole memory: only the same memory overlaps
            same = other.array.memory is target.array.memory if on_device and not self._addressed else outputs.overlap(target, other)
            if same:
                raise ArgumentError(f"the output overlaps {name}; pass an output of its own, or a copy of {name}")

    def _nothing(self, name: str, shape: tuple[int, ...]) -> Matrix:
        """A placeholder for an operand that is not read."""
        rows = 0 if 0 in shape else 1
        return Matrix(np.empty((rows, 1), self._kinds[name]), False, rows, 1, 1, 0, self._alignment)


def compile(
    workload: str, *, dtype: str = "float32", device: str | None = None, precision: Precision | None = None, **sizes: int | str | bool
) -> Compiled:
    """Fix a computation once: returns a callable for arrays of exactly this problem, which looks nothing up.

    ``workload`` is one of those that ``tune`` takes, or ``trsm``, ``mri_q``, ``mri_fhd``; ``sizes`` are its sizes and options by name
    (``m=512, n=512, k=512, trans_a="T"``), ``precision`` is as for ``matmul``. The best configuration known now is compiled and loaded;
    compile again to use later tuning results. Operands are packed and row-major, as stored: with ``trans_a="T"``, ``a`` is k x m.
    ``trsm`` and ``trmm`` overwrite ``b`` with the result, as in the BLAS; compiled with ``apart=True`` they leave it as it is. With NumPy
    arrays the call returns when the result is complete; on a device the work is queued. Raises UnknownNameError, ArgumentError or
    DeviceNotFoundError for what does not fit.

    Examples:
        >>> import numpy as np, portatile
        >>> product = portatile.compile("gemm", m=2, n=4, k=3)
        >>> a, b = np.ones((2, 3), np.float32), np.ones((3, 4), np.float32)
        >>> product(a, b)[0, 0]
        np.float32(3.0)
        >>> c = np.ones((2, 4), np.float32)
        >>> product(a=a, b=b, out=c, alpha=2.0, beta=1.0)[0, 0]
        np.float32(7.0)
    """
    name, options = ROUTINES.get(workload, (workload, {}))
    problem, _ = precisions.problem(checks.precision(precision), name, dtype, {**options, **sizes})
    chosen = devices.get(device)
    if not precisions.chosen_by_device(checks.precision(precision)):
        return Compiled(chosen, problem)
    preferred = precisions.preferred(problem, chosen.info)
    return Compiled(chosen, preferred, None if preferred is problem else problem)
