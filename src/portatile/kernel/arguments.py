"""A user's arguments matched with the parameters that the kernel text declares: arrays, images, scalars, samplers, local memory."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from portatile.device.buffer import Buffer, is_cuda_array
from portatile.device.masked_arrays import refuse_masks
from portatile.dialect.signature import Signature
from portatile.errors import ArgumentError, LaunchError, UnknownNameError
from portatile.images import ImageForm, ImageType, Sampler
from portatile.kernel.elements import as_bytes, by_value, check_elements, flat, scalar, width
from portatile.kernel.expression import Expression
from portatile.records import ELEMENT, SCALARS, UNPASSED, Arg, Parameter, Value

ArrayRole = Literal["in", "out", "inout"]
_ROLES = ("in", "out", "inout")


@dataclass(frozen=True)
class Array:
    """A buffer or image argument, with the array that the definition gives it; ``form`` is an image's."""

    name: str
    declared: str
    role: ArrayRole
    value: NDArray[Any]
    form: ImageForm | None = None

    @property
    def dtype(self) -> str:
        """The element type of the memory: real numbers for a complex array, bytes for structures."""
        return self.memory.dtype.name

    @property
    def memory(self) -> NDArray[Any]:
        """The array's memory: one-dimensional, with complex numbers as pairs of real ones."""
        return flat(self.value)


@dataclass(frozen=True)
class Scalar:
    """A number that is passed by value."""

    name: str
    dtype: str
    value: int | float


@dataclass(frozen=True)
class Packed:
    """A vector or a structure that is passed by value, as ``elements.by_value`` returns it."""

    name: str
    declared: str
    value: NDArray[Any]

    def given(self, value: Any) -> NDArray[Any]:
        """The value that a call passes instead; raises ArgumentError for another type."""
        array = by_value(value, self.name, self.declared)
        if array.dtype != self.value.dtype:
            raise ArgumentError(f"argument {self.name} has dtype {array.dtype}; the kernel was defined with {self.value.dtype}")
        return array


@dataclass(frozen=True)
class Sampling:
    """A sampler. It is part of the kernel's definition: calls do not pass it."""

    name: str
    sampler: Sampler


@dataclass(frozen=True)
class Local:
    """Local memory whose size the host gives: ``elements`` of ``itemsize`` bytes."""

    name: str
    itemsize: int
    elements: Expression


Argument = Array | Scalar | Packed | Sampling | Local


@dataclass(frozen=True)
class Arguments:
    """All arguments, in the order of the kernel's parameters."""

    all: tuple[Argument, ...]

    @property
    def arrays(self) -> tuple[Array, ...]:
        """The buffers and images."""
        return tuple(argument for argument in self.all if isinstance(argument, Array))

    @property
    def outputs(self) -> tuple[Array, ...]:
        """The buffers and images that the kernel writes."""
        return tuple(array for array in self.arrays if array.role != "in")

    @property
    def locals(self) -> tuple[Local, ...]:
        """The local memory arguments."""
        return tuple(argument for argument in self.all if isinstance(argument, Local))

    @property
    def scalars(self) -> dict[str, int | float]:
        """The numbers by name."""
        return {argument.name: argument.value for argument in self.all if isinstance(argument, Scalar)}

    @property
    def valued(self) -> tuple[Array | Packed, ...]:
        """The arguments that are more than a number: arrays, and vectors and structures by value."""
        return (*self.arrays, *self.packed)

    @property
    def packed(self) -> tuple[Packed, ...]:
        """The vectors and structures that are passed by value."""
        return tuple(argument for argument in self.all if isinstance(argument, Packed))

    def integers(self, values: Mapping[str, Any]) -> dict[str, int]:
        """The integer arguments among ``values``; raises ArgumentError for one that does not fit."""
        scalars = (argument for argument in self.all if isinstance(argument, Scalar) and np.dtype(argument.dtype).kind in "iu")
        return {argument.name: int(scalar(values[argument.name], argument.name, argument.dtype)) for argument in scalars}

    @property
    def called(self) -> tuple[str, ...]:
        """The names of the arguments that a caller passes: all but samplers and local memory."""
        return tuple(argument.name for argument in self.all if not isinstance(argument, Sampling | Local))

    @property
    def sampled(self) -> tuple[str, ...]:
        """The part of a digest that covers images and samplers."""
        images = (f"{array.name} {array.form.type} {array.form.normalized}" for array in self.arrays if array.form is not None)
        return (*images, *(f"{argument.name} {argument.sampler.bits}" for argument in self.all if isinstance(argument, Sampling)))

    @property
    def layouts(self) -> tuple[str, ...]:
        """The part of a digest that covers vectors and structures by value."""
        return tuple(f"{packed.name} {packed.value.dtype} {packed.value.shape}" for packed in self.packed)

    def args(self, values: Mapping[str, Value], scalars: Mapping[str, int | float] | None) -> tuple[Arg, ...]:
        """The arguments of a launch. Expressions read ``values``. ``scalars`` are the numbers; with None these, vectors and structures are
        passed at the launch.
        """
        return tuple(_arg(argument, values, scalars) for argument in self.all)

    def bind(self, values: Sequence[Any], named: Mapping[str, Any], kernel: str) -> dict[str, Any]:
        """A call's arguments by name; raises ArgumentError for too many, too few, or one given twice."""
        names = self.called
        call = f"{kernel}({', '.join(names)})"
        if len(values) > len(names):
            raise ArgumentError(f"{call} takes {len(names)} arguments, got {len(values)}")
        bound = dict(zip(names, values, strict=False))
        for name, value in named.items():
            if name not in names:
                raise UnknownNameError(f"argument of {kernel}", name, names)
            if name in bound:
                raise ArgumentError(f"{call}: {name} is given twice")
            bound[name] = value
        if missing := [name for name in names if name not in bound]:
            raise ArgumentError(f"{call}: {', '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing")
        return bound


def match(
    head: Signature, of_user: Sequence[Any] | Mapping[str, Any], roles: Mapping[str, str], normalized: Sequence[str] = ()
) -> Arguments:
    """The arguments of a kernel from the user's values, in order or by name.

    ``Kernel`` says which value each kind of parameter takes. ``roles`` gives ``in``, ``out`` or ``inout`` for arrays; by default pointers
    to const and images that are read are ``in``, others ``inout``. ``normalized`` names the images whose integers are read as fractions.
    Raises ArgumentError, which names the argument, for everything that does not match.
    """
    names = [parameter.name for parameter in head.parameters]
    declaration = f"{head.name}({', '.join(f'{p.type} {p.name}' for p in head.parameters)})"
    if isinstance(of_user, Mapping):
        for name in of_user:
            if name not in names:
                raise UnknownNameError(f"argument of {head.name}", name, names)
        if missing := [name for name in names if name not in of_user]:
            raise ArgumentError(f"{declaration}: no value for {', '.join(missing)}")
        values = [of_user[name] for name in names]
    else:
        if isinstance(of_user, np.ndarray | str):
            raise ArgumentError(f"{declaration}: pass its arguments as a list or a dict, not one {type(of_user).__name__}")
        values = list(of_user)
        if len(values) != len(names):
            raise ArgumentError(f"{declaration} takes {len(names)} arguments, got {len(values)}")
    for name, role in roles.items():
        if name not in names:
            raise UnknownNameError(f"argument of {head.name}", name, names)
        if role not in _ROLES:
            raise ArgumentError(f"the role of {name} is {role!r}; it must be one of {', '.join(_ROLES)}")
    images = [parameter.name for parameter in head.parameters if parameter.kind == "image"]
    for name in normalized:
        if name not in images:
            raise UnknownNameError(f"image of {head.name}", name, images)
    return Arguments(
        tuple(_match(head, parameter, value, roles, normalized) for parameter, value in zip(head.parameters, values, strict=True))
    )


def _match(head: Signature, parameter: Parameter, value: Any, roles: Mapping[str, str], normalized: Sequence[str]) -> Argument:
    """The argument for one parameter, from the user's value; raises ArgumentError."""
    name, declared = parameter.name, parameter.type.removesuffix("*")
    if declared == "sampler_t":
        if not isinstance(value, Sampler):
            raise ArgumentError(f"argument {name} of {head.name} is a sampler: pass portatile.Sampler(...), not {value!r}")
        return Sampling(name, value)
    if parameter.kind == "local":
        return _match_local(head, name, declared, value)
    if parameter.kind == "scalar":
        if declared in UNPASSED:
            raise ArgumentError(
                f"argument {name} of {head.name} is a {declared}, which OpenCL C does not allow: declare it {UNPASSED[declared]}"
            )
        if declared not in SCALARS:
            return Packed(name, declared, by_value(value, name, declared))
        return Scalar(name, SCALARS[declared], scalar(value, name, SCALARS[declared]))
    return _match_array(head, parameter, value, roles, name in normalized)


def _match_local(head: Signature, name: str, declared: str, elements: Any) -> Local:
    known = ELEMENT.fullmatch(declared)
    if known is None:
        raise ArgumentError(f"argument {name} of {head.name}: local memory of {declared} has no known size; declare it char or float")
    if not isinstance(elements, int | float | np.number | str) and not callable(elements):
        given = f"not a {type(elements).__name__}"
        raise ArgumentError(f"argument {name} of {head.name} is local memory: pass its number of elements, such as 64 or 'block', {given}")
    return Local(name, width(declared) * np.dtype(SCALARS[known[1]]).itemsize, Expression.of(elements, f"elements of {name}"))


def _match_array(head: Signature, parameter: Parameter, value: Any, roles: Mapping[str, str], normalized: bool) -> Array:
    """A buffer or image, with the role that the user or else the declaration gives it."""
    name, declared = parameter.name, parameter.type.removesuffix("*")
    role = roles.get(name, "in" if name in head.read_only else "inout")
    if role != "in" and name in head.read_only:
        how = "read_only" if parameter.kind == "image" else "const"
        raise ArgumentError(f"the role of {name} is {role!r}, but {head.name} declares it {how}")
    if parameter.kind == "image":
        form = image(value, name, declared, normalized)
        return Array(name, declared, cast(ArrayRole, role), value, form)
    declared_array = Array(name, declared, cast(ArrayRole, role), array(value, name, declared))
    if declared_array.value.dtype.names is not None and role != "in":
        raise ArgumentError(
            f"argument {name} of {head.name} is an array of structures, and the kernel may write it; results are compared by number: "
            f"declare it const, or use an array for each member"
        )
    return declared_array


def image(value: Any, name: str, declared: str, normalized: bool) -> ImageForm:
    """An array as an image of the type ``declared``; without its last axis it has one channel. Raises ArgumentError."""
    if not isinstance(value, np.ndarray):
        raise ArgumentError(f"argument {name} is an {declared}: pass a NumPy array of its pixels, not a {type(value).__name__}")
    refuse_masks(value, name)
    if not value.flags.c_contiguous or not value.flags.aligned or not value.dtype.isnative:
        raise ArgumentError(f"argument {name} is not contiguous in memory; pass numpy.ascontiguousarray({name})")
    kind = cast(ImageType, declared)
    shape = (*value.shape, 1) if value.ndim == ImageForm.axes(kind) - 1 else value.shape
    try:
        return ImageForm(kind, shape, value.dtype.name, normalized)
    except LaunchError as error:
        raise ArgumentError(f"argument {name}: {error}") from None


def _on_host(value: Any, name: str) -> str:
    """Advice to convert an array on a device to a NumPy array: definitions are sent to other processes, which devices' arrays are not."""
    if isinstance(value, Buffer):
        return f": {name}.numpy()"
    return f": for example {name}.cpu().numpy() or {name}.get()" if is_cuda_array(value) else ""


def array(value: Any, name: str, declared: str) -> NDArray[Any]:
    """``value`` as an array for a pointer to ``declared``; raises ArgumentError if its type differs or it would have to be copied."""
    if not isinstance(value, np.ndarray):
        raise ArgumentError(
            f"argument {name} is a pointer to {declared}: pass a NumPy array, not a {type(value).__name__}{_on_host(value, name)}"
        )
    check_elements(value.dtype, name, declared)
    refuse_masks(value, name)
    if value.size == 0:
        raise ArgumentError(f"argument {name} has no elements (shape {value.shape})")
    if not value.flags.c_contiguous or not value.flags.aligned:
        raise ArgumentError(f"argument {name} is not contiguous in memory; pass numpy.ascontiguousarray({name})")
    if flat(value).size % width(declared):
        raise ArgumentError(f"argument {name} has {flat(value).size} numbers, not a multiple of the {width(declared)} of a {declared}")
    return value


def _arg(argument: Argument, values: Mapping[str, Value], scalars: Mapping[str, int | float] | None) -> Arg:
    if isinstance(argument, Array):
        return Arg(argument.name, "buffer" if argument.form is None else "image", argument.role)
    if isinstance(argument, Sampling):
        return Arg(argument.name, "scalar", dtype="sampler_t", value=argument.sampler.bits)
    if isinstance(argument, Scalar):
        number = None if scalars is None else scalars[argument.name]
        return Arg(argument.name, "scalar", dtype=argument.dtype, value=number)
    if isinstance(argument, Packed):
        memory = as_bytes(argument.value)
        return Arg(argument.name, "scalar", dtype=f"V{len(memory)}", value=None if scalars is None else memory.hex())
    elements = argument.elements(values)
    if not isinstance(elements, int | float | np.number) or not 0 < elements < math.inf:
        raise ArgumentError(f"argument {argument.name}: {argument.elements.text} gives {elements!r}, not a number of elements")
    return replace(Arg(argument.name, "local"), value=math.ceil(elements) * argument.itemsize)
