"""Images and samplers in OpenCL's terms."""

from __future__ import annotations

from typing import Any

import numpy as np

from portatile.device.opencl.driver import cl
from portatile.images import ImageForm, Sampler

_CHANNEL_ORDER = {1: "R", 2: "RG", 4: "RGBA"}
_IMAGE_KIND = {
    "image1d_t": "IMAGE1D",
    "image1d_buffer_t": "IMAGE1D_BUFFER",
    "image1d_array_t": "IMAGE1D_ARRAY",
    "image2d_t": "IMAGE2D",
    "image2d_array_t": "IMAGE2D_ARRAY",
    "image3d_t": "IMAGE3D",
}
_ADDRESSING = {"none": "NONE", "edge": "CLAMP_TO_EDGE", "clamp": "CLAMP", "repeat": "REPEAT", "mirror": "MIRRORED_REPEAT"}


def description(form: ImageForm, backing: Any) -> Any:
    """The ``pyopencl.ImageDescriptor``; ``backing`` is the buffer behind an ``image1d_buffer_t``, else None."""
    descriptor = cl.ImageDescriptor()
    descriptor.image_type = getattr(cl.mem_object_type, _IMAGE_KIND[form.type])
    descriptor.shape = (form.width, form.height, 1 if form.layered else form.depth)
    descriptor.array_size = form.depth if form.layered else 0
    descriptor.pitches = (0, 0)
    descriptor.num_mip_levels = descriptor.num_samples = 0
    if backing is not None:
        descriptor.buffer = backing
    return descriptor


def sampling(sampler: Sampler) -> tuple[bool, Any, Any]:
    """The arguments of a ``pyopencl.Sampler``."""
    addressing = getattr(cl.addressing_mode, _ADDRESSING[sampler.addressing])
    return sampler.normalized, addressing, cl.filter_mode.LINEAR if sampler.linear else cl.filter_mode.NEAREST


def pixel(form: ImageForm) -> Any:
    """The ``pyopencl.ImageFormat``."""
    dtype = np.dtype(form.dtype)
    bits = 8 * dtype.itemsize
    if dtype.kind == "f":
        kind = "FLOAT" if bits == 32 else "HALF_FLOAT"
    elif form.normalized:
        kind = f"{'UNORM' if dtype.kind == 'u' else 'SNORM'}_INT{bits}"
    else:
        kind = f"{'UNSIGNED' if dtype.kind == 'u' else 'SIGNED'}_INT{bits}"
    return cl.ImageFormat(getattr(cl.channel_order, _CHANNEL_ORDER[form.channels]), getattr(cl.channel_type, kind))
