"""Images and samplers for all back ends: the type, shape and pixels of an image, and how it is read."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Literal, get_args

import numpy as np

from portatile.errors import ArgumentError, LaunchError
from portatile.records import Entry

ImageType = Literal["image1d_t", "image1d_buffer_t", "image1d_array_t", "image2d_t", "image2d_array_t", "image3d_t"]
"""The image types of OpenCL C 1.2, as kernels name them."""

_DIMENSIONS: dict[str, tuple[str, ...]] = {
    "image1d_t": ("width",),
    "image1d_buffer_t": ("width",),
    "image1d_array_t": ("layers", "width"),
    "image2d_t": ("height", "width"),
    "image2d_array_t": ("layers", "height", "width"),
    "image3d_t": ("depth", "height", "width"),
}
_DTYPES = ("float32", "float16", "int32", "uint32", "int16", "uint16", "int8", "uint8")
_LARGEST = 2**31 - 1


@dataclass(frozen=True)
class ImageForm:
    """An image of ``type`` whose pixels are a C-contiguous host array of ``shape`` and ``dtype``.

    ``shape`` is (width, channels), (layers, width, channels), (height, width, channels) or (depth or layers, height, width, channels), with
    1, 2 or 4 channels. ``normalized``: 8- or 16-bit integers that kernels read as fractions, for example 255 as 1.0. Raises LaunchError for
    an image that no device supports.

    Examples:
        >>> form = ImageForm("image3d_t", (4, 8, 16, 1))
        >>> form.width, form.height, form.depth, form.nbytes
        (16, 8, 4, 2048)
    """

    type: ImageType
    shape: tuple[int, ...]
    dtype: str = "float32"
    normalized: bool = False

    def __post_init__(self) -> None:
        if self.type not in get_args(ImageType):
            raise LaunchError(f"{self.type!r} is not an image type; known are {', '.join(get_args(ImageType))}")
        dimensions = _DIMENSIONS[self.type]
        if len(self.shape) != len(dimensions) + 1:
            raise LaunchError(f"an {self.type} has the shape ({', '.join(dimensions)}, channels), not {self.shape}")
        if self.shape[-1] not in (1, 2, 4) or self.dtype not in _DTYPES:
            raise LaunchError(f"no image has pixels of {self.shape[-1]} x {self.dtype}; channels are 1, 2 or 4, types {', '.join(_DTYPES)}")
        if self.normalized and (self.dtype[0] == "f" or np.dtype(self.dtype).itemsize > 2):
            raise LaunchError(f"only integers of 8 and 16 bits can be read as fractions, not {self.dtype}")
        if min(self.shape) < 1 or prod(self.shape[:-1]) > _LARGEST:
            raise LaunchError(f"an image of {self.shape[:-1]} is empty or has more than {_LARGEST} pixels")

    @staticmethod
    def axes(kind: ImageType) -> int:
        """The number of axes of the host array, including the channels."""
        return len(_DIMENSIONS[kind]) + 1

    @property
    def channels(self) -> int:
        """Components of a pixel."""
        return self.shape[-1]

    @property
    def width(self) -> int:
        """Pixels in a row."""
        return self.shape[-2]

    @property
    def height(self) -> int:
        """Rows; 1 for one-dimensional images."""
        return self.shape[-3] if "height" in _DIMENSIONS[self.type] else 1

    @property
    def depth(self) -> int:
        """Planes of a three-dimensional image, layers of an array; else 1."""
        return self.shape[0] if {"depth", "layers"} & set(_DIMENSIONS[self.type]) else 1

    @property
    def layered(self) -> bool:
        """Whether it is an array of images."""
        return "layers" in _DIMENSIONS[self.type]

    @property
    def pixel(self) -> int:
        """Bytes of a pixel."""
        return self.channels * np.dtype(self.dtype).itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of the host array."""
        return prod(self.shape[:-1]) * self.pixel

    @property
    def code(self) -> int:
        """Number, size in bytes and kind of the channels as the CUDA prelude reads them, one byte each from the lowest on."""
        dtype = np.dtype(self.dtype)
        kind = {"f": 1, "i": 2, "u": 3}[dtype.kind] if not self.normalized else {"u": 4, "i": 5}[dtype.kind]
        return self.channels | dtype.itemsize << 8 | kind << 16

    def __str__(self) -> str:
        return f"{self.type} of {' x '.join(map(str, self.shape[:-1]))}, {self.channels} x {self.dtype}"


Addressing = Literal["none", "edge", "clamp", "repeat", "mirror"]
_ADDRESSING: dict[Addressing, int] = {
    "none": 0,
    "edge": 2,
    "clamp": 4,
    "repeat": 6,
    "mirror": 8,
}  # CLK_ADDRESS_ constants of the CUDA prelude


@dataclass(frozen=True)
class Sampler:
    """A ``sampler_t`` argument. Reads beyond the image give its edge (``edge``), zero (``clamp``), its repetition or its mirror image.

    ``linear`` interpolates; ``normalized`` coordinates run from 0 to 1, as ``repeat`` and ``mirror`` require.

    Examples:
        >>> Sampler("edge", linear=True).bits
        18
    """

    addressing: Addressing = "clamp"
    linear: bool = False
    normalized: bool = False

    def __post_init__(self) -> None:
        if self.addressing not in _ADDRESSING:
            raise LaunchError(f"a sampler's addressing is {', '.join(_ADDRESSING)}, not {self.addressing!r}")
        if self.addressing in ("repeat", "mirror") and not self.normalized:
            raise LaunchError(f"addressing {self.addressing!r} needs normalized coordinates: Sampler({self.addressing!r}, normalized=True)")

    @property
    def bits(self) -> int:
        """The value of the CUDA prelude's ``sampler_t``."""
        return _ADDRESSING[self.addressing] | self.normalized | self.linear << 4

    @classmethod
    def of_bits(cls, bits: int) -> Sampler:
        """The sampler with these ``bits``."""
        addressing = next(name for name, value in _ADDRESSING.items() if value == bits & 14)
        return cls(addressing, linear=bool(bits & 16), normalized=bool(bits & 1))


def check_view(form: ImageForm, nbytes: int, widest: int, device: str) -> None:
    """Raise LaunchError or ArgumentError if ``nbytes`` of a buffer cannot be read as ``form``; ``widest``: pixels, or 0 if unsupported."""
    if form.type != "image1d_buffer_t":
        raise LaunchError(f"memory can be read as an image1d_buffer_t, not as an {form.type}")
    if form.nbytes > nbytes:
        raise ArgumentError(f"an {form} takes {form.nbytes} bytes, the memory has {nbytes}")
    if form.width > widest:
        raise LaunchError(f"an {form} does not fit {device}: " + (f"at most {widest}" if widest else "it has no images over buffers"))


def check_form(entry: Entry, index: int, form: ImageForm) -> None:
    """Raise LaunchError if the kernel declares its parameter as another image type, where its parameters are known."""
    if index < len(entry.parameters):
        declared = entry.parameters[index]
        if declared.type.startswith("image") and declared.type != form.type:
            place = f"argument {index} ({declared.type} {declared.name}) of kernel {entry.name!r}"
            raise LaunchError(f"{place} does not take an {form.type}: make it with image_of(ImageForm({declared.type!r}, ...))")
