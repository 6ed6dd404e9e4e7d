"""A refused call leaves everything that it was given as it was: every routine with every argument that it must refuse, bit for bit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import portatile
from portatile import Buffer, wavelets
from portatile.device.base import Device
from portatile.errors import UsageError

pytestmark = [pytest.mark.thinned(1 / 3), pytest.mark.unoptimised]

_NAN = np.uint32(0x7FC0ABCD)  # not the NaN that arithmetic makes


@dataclass(frozen=True)
class Routine:
    """How to call a routine rightly: its arrays by name with their shapes, ``out``'s shape if it takes one, and its other arguments.

    ``letters`` and ``scalars`` name options and factors.
    """

    name: str
    call: Callable[..., Any]
    arrays: Mapping[str, tuple[int, ...]]
    out: tuple[int, ...] | None = None
    other: Mapping[str, Any] = field(default_factory=dict)
    letters: tuple[str, ...] = ()
    scalars: tuple[str, ...] = ()
    single: bool = False  # float32 alone
    any_axes: bool = False  # takes arrays of any number of dimensions
    gaps: bool = False  # takes an out with gaps on the host, and on a device one that shares memory with the operand
    reads: bool = False  # what is in out
    converts: bool = False  # takes other dtypes, gaps and overlaps on the host, as numpy.matmul does


_TRIANGLE: dict[str, Any] = {"letters": ("side", "uplo", "trans", "diag"), "scalars": ("alpha",)}
_SAMPLES = ("kx", "ky", "kz", "phi_r", "phi_i")
_TAPS = [0.25, 0.5, 0.25]


def _compiled(name: str, sizes: dict[str, Any]) -> Callable[..., Any]:
    def call(**arguments: Any) -> Any:
        device = arguments.pop("device", None)
        return portatile.compile(name, device=device, **sizes)(**arguments)

    return call


_ROUTINES = (
    Routine("matmul", portatile.matmul, {"a": (6, 5), "b": (5, 7)}, (6, 7), converts=True),
    Routine(
        "gemm",
        portatile.gemm,
        {"a": (6, 5), "b": (5, 7), "c": (6, 7)},
        (6, 7),
        {"beta": 0.5},
        letters=("trans_a", "trans_b"),
        scalars=("alpha", "beta"),
    ),
    Routine(
        "gemm of stacks",
        portatile.gemm,
        {"a": (3, 6, 5), "b": (3, 5, 7), "c": (3, 6, 7)},
        (3, 6, 7),
        {"beta": 0.5},
        letters=("trans_a", "trans_b"),
        scalars=("alpha", "beta"),
    ),
    Routine("trsm", portatile.trsm, {"a": (6, 6), "b": (6, 7)}, (6, 7), **_TRIANGLE),
    Routine("trmm", portatile.trmm, {"a": (6, 6), "b": (6, 7)}, (6, 7), **_TRIANGLE),
    Routine(
        "symm",
        portatile.symm,
        {"a": (6, 6), "b": (6, 7), "c": (6, 7)},
        (6, 7),
        {"beta": 0.5},
        letters=("side", "uplo"),
        scalars=("alpha", "beta"),
    ),
    Routine(
        "syrk",
        portatile.syrk,
        {"a": (6, 5), "c": (6, 6)},
        (6, 6),
        {"beta": 0.5},
        letters=("uplo", "trans"),
        scalars=("alpha", "beta"),
    ),
    Routine(
        "syr2k",
        portatile.syr2k,
        {"a": (6, 5), "b": (6, 5), "c": (6, 6)},
        (6, 6),
        {"beta": 0.5},
        letters=("uplo", "trans"),
        scalars=("alpha", "beta"),
    ),
    Routine("convolve1d", portatile.convolve1d, {"psi": (8, 3)}, None, {"taps": _TAPS, "lower": -1}, letters=("boundary",), any_axes=True),
    Routine(
        "filter_bank1d",
        portatile.filter_bank1d,
        {"psi": (8, 3)},
        None,
        {"filters": [[0.5, 0.5], [0.5, -0.5]], "lower": 0, "bank": "analysis"},
        any_axes=True,
    ),
    Routine(
        "convolve3d_separable",
        portatile.convolve3d_separable,
        {"array": (8, 6, 4)},
        (8, 6, 4),
        {"taps": _TAPS, "lower": -1},
        gaps=True,
        letters=("boundary",),
    ),
    Routine("magicfilter", wavelets.magicfilter, {"psi": (8, 3)}, letters=("boundary",), any_axes=True),
    Routine("magicfilter3d", wavelets.magicfilter3d, {"array": (8, 6, 4)}, (8, 6, 4), gaps=True, letters=("boundary",)),
    Routine("analysis", wavelets.analysis, {"psi": (8, 3)}, letters=("boundary",), any_axes=True),
    Routine("synthesis", wavelets.synthesis, {"psi": (8, 3)}, letters=("boundary",), any_axes=True),
    Routine("analysis3d", wavelets.analysis3d, {"array": (8, 6, 4)}, (8, 6, 4), gaps=True),
    Routine("synthesis3d", wavelets.synthesis3d, {"array": (8, 6, 4)}, (8, 6, 4), gaps=True),
    Routine("apply_potential", wavelets.apply_potential, {"psi": (8, 6, 4), "potential": (8, 6, 4)}, letters=("boundary",)),
    Routine("potential_energy", wavelets.potential_energy, {"psi": (8, 6, 4), "potential": (8, 6, 4)}, letters=("boundary",)),
    Routine("density", wavelets.density, {"psi": (8, 6, 4)}, letters=("boundary",)),
    Routine("kinetic", wavelets.kinetic, {"psi": (8, 6, 4)}, letters=("boundary",), any_axes=True),
    Routine("coulomb_potential", portatile.coulomb_potential, {"atoms": (5, 4)}, (6, 8), {"shape": (6, 8), "spacing": 0.5}, single=True),
    Routine(
        "coulomb_potential of a volume",
        portatile.coulomb_potential,
        {"atoms": (5, 4)},
        (2, 6, 8),
        {"shape": (2, 6, 8), "spacing": 0.5},
        single=True,
    ),
    Routine("mri_q", portatile.mri_q, {**dict.fromkeys(_SAMPLES, (5,)), **dict.fromkeys("xyz", (7,))}, single=True),
    Routine("mri_fhd", portatile.mri_fhd, {**dict.fromkeys((*_SAMPLES, "d_r", "d_i"), (5,)), **dict.fromkeys("xyz", (7,))}, single=True),
    Routine("compile(gemm)", _compiled("gemm", {"m": 6, "n": 7, "k": 5}), {"a": (6, 5), "b": (5, 7)}, (6, 7), scalars=("alpha", "beta")),
    Routine("compile(trsm)", _compiled("trsm", {"m": 6, "n": 7}), {"a": (6, 6)}, (6, 7), scalars=("alpha",), reads=True),
    Routine("compile(coulomb)", _compiled("coulomb", {"atoms": 5, "nx": 8, "ny": 6, "nz": 2}), {"atoms": (5, 4)}, (12, 8), single=True),
)


@dataclass
class Case:
    """Arguments, and the arrays among them that must stay as they are."""

    arguments: dict[str, Any]
    watched: list[Any]


def _filled(shape: tuple[int, ...], rng: np.random.Generator, dtype: str = "float32") -> np.ndarray:
    return rng.standard_normal(shape).astype(dtype)


def _nans(shape: tuple[int, ...], dtype: str = "float32") -> np.ndarray:
    words = np.full(int(np.prod(shape)) * np.dtype(dtype).itemsize // 4, _NAN)
    return words.view(dtype).reshape(shape)


def _good(routine: Routine, rng: np.random.Generator) -> dict[str, Any]:
    """Arguments on the host that the routine takes."""
    arguments = {name: _filled(shape, rng) for name, shape in routine.arrays.items()} | dict(routine.other)
    return arguments | ({} if routine.out is None else {"out": _nans(routine.out)})


def _overlapping(first: tuple[int, ...], second: tuple[int, ...], rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Memory, and two arrays in it that share some of it without being the same."""
    size = int(max(np.prod(first), np.prod(second)))
    memory = _filled((size + 4,), rng)
    return memory, memory[: np.prod(first)].reshape(first), memory[4 : 4 + np.prod(second)].reshape(second)


def _changes(routine: Routine, rng: np.random.Generator) -> Iterator[tuple[str, dict[str, Any], list[Any]]]:
    """What is wrong, with the arguments that make it so, and what else must stay as it is; arrays are the host's."""
    yield "an unknown device", {"device": "no such device"}, []
    yield "a device that is no text", {"device": 3}, []
    arrays = dict(routine.arrays) | ({} if routine.out is None else {"out": routine.out})
    for name, shape in arrays.items():
        if not routine.converts or name == "out":
            yield f"{name} of int32", {name: np.ones(shape, np.int32)}, []
        if not routine.converts or name != "out":
            yield f"{name} of complex64", {name: np.ones(shape, np.complex64)}, []
        yield f"{name} is text", {name: "text"}, []
        if not routine.any_axes and not (routine.converts and name == "out"):
            yield f"{name} with an axis too many", {name: _filled((1, 1, 1, *shape), rng)}, []
        yield f"{name} without an axis", {name: np.float32(1.0) if name != "out" else np.zeros((), np.float32)}, []
        if (len(arrays) > 1 or routine.single) and not routine.converts:
            yield f"{name} of another dtype", {name: _filled(shape, rng, "float64")}, []
        if len(arrays) > 1 and name not in ("array", "atoms"):
            longer = (*shape[:-1], shape[-1] + 1) if name != "a" or routine.name != "syrk" else (shape[0] + 1, *shape[1:])
            yield f"{name} of another shape", {name: _filled(longer, rng)}, []
    for letter in routine.letters:
        yield f"no such {letter}", {letter: "?"}, []
    for scalar in routine.scalars:
        yield f"{scalar} is text", {scalar: "much"}, []
    if routine.out is not None:
        frozen = _nans(routine.out)
        frozen.flags.writeable = False
        yield "a read-only out", {"out": frozen}, []
        if routine.converts:
            return
        if not routine.gaps:
            yield "an out with gaps", {"out": _nans((*routine.out[:-1], 2 * routine.out[-1]))[..., ::2]}, []
        for name, shape in routine.arrays.items():
            memory, array, out = _overlapping(shape, routine.out, rng)
            yield f"out overlaps {name}", {name: array, "out": out}, [memory]


def _bytes(array: Any) -> bytes:
    return bytes(array.numpy().tobytes() if isinstance(array, Buffer) else array.tobytes())


def _refused(routine: Routine, what: str, arguments: dict[str, Any], watched: list[Any]) -> None:
    watched = [*watched, *(value for value in arguments.values() if isinstance(value, (np.ndarray, Buffer)))]
    before = [_bytes(array) for array in watched]
    message = ""
    try:
        routine.call(**arguments)
    except UsageError as error:
        message = str(error)
    assert message, f"{routine.name} takes {what}"
    for array, was in zip(watched, before, strict=True):
        assert _bytes(array) == was, f"{routine.name} with {what} was refused and has changed an array"


@pytest.mark.parametrize("routine", _ROUTINES, ids=lambda routine: routine.name)
def test_a_refused_call_changes_nothing_on_the_host(routine: Routine, device: Device) -> None:
    rng = np.random.default_rng(7)
    place = {"device": device.info.id}
    good = _good(routine, rng) | place
    routine.call(**good)  # the list of refusals says nothing where this is refused too
    assert routine.out is None or routine.reads or not np.isnan(good["out"]).all()
    for what, change, watched in _changes(routine, rng):
        _refused(routine, what, _good(routine, rng) | place | change, watched)


def _moved(arguments: Mapping[str, Any], device: Device) -> dict[str, Any]:
    """The arguments with the host's arrays as Buffers."""
    return {name: Buffer.from_numpy(value, device) if isinstance(value, np.ndarray) else value for name, value in arguments.items()}


@pytest.mark.parametrize("routine", _ROUTINES, ids=lambda routine: routine.name)
def test_a_refused_call_changes_nothing_on_the_device(routine: Routine, device: Device) -> None:
    rng = np.random.default_rng(8)
    place = {"device": device.info.id} if routine.name.startswith("compile") else {}
    good = _moved(_good(routine, rng), device) | place
    routine.call(**good)
    assert routine.out is None or routine.reads or not np.isnan(good["out"].numpy()).all()
    for what, change, _ in _changes(routine, rng):
        if "overlaps" in what or "read-only" in what or "gaps" in what or "without an axis" in what:
            continue
        _refused(routine, what, _moved(_good(routine, rng), device) | place | _moved(change, device), [])
    for name in routine.arrays if len(routine.arrays) > 1 else ():
        _refused(routine, f"{name} on the host", _moved(_good(routine, rng), device) | place | {name: _good(routine, rng)[name]}, [])
    if routine.out is not None:
        _refused(routine, "out on the host", _moved(_good(routine, rng), device) | place | {"out": _nans(routine.out)}, [])
        for name, shape in ({} if routine.gaps else routine.arrays).items():
            pool, _, _ = _overlapping(shape, routine.out, rng)
            memory = Buffer.from_numpy(pool, device)
            one = Buffer(memory.memory, shape, "float32")
            out = Buffer(memory.memory, routine.out, "float32", None, 16)
            _refused(routine, f"out overlaps {name}", _moved(_good(routine, rng), device) | place | {name: one, "out": out}, [memory])
