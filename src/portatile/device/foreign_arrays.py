"""Other libraries' arrays in CUDA memory: whether they are there, their memory layout, and the stream on which their library works."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np

from portatile.device.dlpack import CUDA_DEVICE, Strided, packed, take
from portatile.dtypes import ELEMENTS
from portatile.errors import ArgumentError

_UNNAMED = ("bfloat16", "float8_e4m3fn", "float8_e5m2")  # dtypes without a name in ``__cuda_array_interface__``, which reports bytes
THREAD_STREAM = 2  # the per-thread default stream, as ``__cuda_array_interface__`` numbers it
LEGACY_STREAM = 1  # the legacy default stream, likewise


def in_cuda_memory(array: Any) -> bool:
    """Whether an object that is neither a NumPy array nor a Buffer is in CUDA memory, according to its own attributes."""
    is_cuda = getattr(array, "is_cuda", None)  # PyTorch's tensors, whose protocols below take 5 us
    if is_cuda is not None:
        return bool(is_cuda)
    if hasattr(array, "__cuda_array_interface__"):
        return True
    place = getattr(array, "__dlpack_device__", None)
    return place is not None and int(place()[0]) == CUDA_DEVICE


def caller_stream(array: Any) -> int:
    """The CUDA stream on which the library that owns ``array`` now works: PyTorch's and CuPy's current stream.

    Other libraries give theirs in ``__cuda_array_interface__``; without one it is the default stream.
    """
    library = type(array).__module__.split(".")[0]
    if library == "torch":
        return int(sys.modules["torch"].cuda.current_stream(array.device).cuda_stream) or LEGACY_STREAM
    if library == "cupy":
        with array.device:
            return int(sys.modules["cupy"].cuda.get_current_stream().ptr) or LEGACY_STREAM
    return int(getattr(array, "__cuda_array_interface__", {}).get("stream") or LEGACY_STREAM)


def watching() -> Callable[[], bool]:
    """A function that tells whether PyTorch may transform or record this thread's computations: tangents, ``torch.func``, ``jit.trace``."""
    return _watching(sys.modules["torch"])


@cache
def _watching(torch: Any) -> Callable[[], bool]:
    try:
        forward, tracing, stack = torch.autograd.forward_ad, torch._C._get_tracing_state, torch._C._functorch.peek_interpreter_stack
    except AttributeError:  # PyTorch has no public function for this
        return lambda: False
    return lambda: forward._current_level >= 0 or tracing() is not None or stack() is not None


def without_gradients(tensor: Any) -> Any:
    """A PyTorch tensor of which no gradient is recorded. Raises ArgumentError if gradients would be lost, and while PyTorch transforms or
    records what is computed from it, as in ``torch.func``.
    """
    if watching()():
        _refuse_watched(tensor)
    if not tensor.requires_grad:
        return tensor
    if sys.modules["torch"].is_grad_enabled():
        raise ArgumentError(
            "a tensor that requires gradients: call the functions of portatile.torch, which have them, or pass tensor.detach()"
        )
    return tensor.detach()


def _refuse_watched(tensor: Any) -> None:
    torch: Any = sys.modules["torch"]
    if torch._C._get_tracing_state() is not None:
        raise ArgumentError("torch.jit.trace would record the result as a constant: call the functions of portatile.torch")
    if torch._C._functorch.is_functorch_wrapped_tensor(tensor) or torch._is_functional_tensor(tensor):
        raise ArgumentError("a tensor of a function that torch.func transforms has no memory: call the functions of portatile.torch")
    if torch.autograd.forward_ad.unpack_dual(tensor).tangent is not None:
        raise ArgumentError("a tensor with a tangent, which would be lost: pass torch.autograd.forward_ad.unpack_dual(tensor).primal")


def resolved(array: Any) -> Any:
    """A copy of a PyTorch tensor that is lazily conjugated or negated, with that applied; any other array itself."""
    lazy = getattr(array, "is_conj", None)
    return array.resolve_conj().resolve_neg() if lazy is not None and (lazy() or array.is_neg()) else array


def strided(array: Any) -> Strided:
    """Pointer, shape, strides in bytes and dtype of an array in CUDA memory.

    Raises ArgumentError for any other array, and for tensors that are lazily conjugated or negated or whose gradients would be lost.
    """
    if hasattr(array, "is_conj"):  # PyTorch's tensors
        if resolved(array) is not array:
            raise ArgumentError("a tensor that is lazily conjugated or negated; pass tensor.resolve_conj().resolve_neg()")
        array = without_gradients(array)
    named = str(getattr(array, "dtype", "")).rpartition(".")[2]
    bits = array.view(sys.modules["torch"].uint8) if named.startswith("float8") and hasattr(array, "new_empty") else array
    interface = getattr(bits, "__cuda_array_interface__", None)  # PyTorch has none for tensors of eight-bit floats
    if interface is not None:
        shape = tuple(interface["shape"])
        dtype = ELEMENTS[named].numpy if named in _UNNAMED else np.dtype(interface["typestr"])
        strides = tuple(interface.get("strides") or packed(shape, dtype.itemsize))
        pointer = int(interface["data"][0])
        return Strided(pointer, shape, strides, dtype, _gpu(array, pointer), array)
    if hasattr(array, "__dlpack__") and in_cuda_memory(array):
        return take(array.__dlpack__(stream=caller_stream(array)))
    raise ArgumentError(f"a {type(array).__name__} is not in accessible CUDA memory; pass NumPy, CuPy or PyTorch arrays")


def _gpu(array: Any, pointer: int) -> int:
    """The number of the GPU that holds an array, from its library if that tells, else from the driver by the pointer."""
    place = getattr(array, "__dlpack_device__", None)
    kind, number = place() if place is not None else (0, 0)
    return int(number) if int(kind) == CUDA_DEVICE else _cuda().ordinal(pointer)


@cache
def _cuda() -> Any:
    """The module that finds the GPU of a pointer; imported for the first pointer, because it loads the driver's bindings."""
    return import_module("portatile.device.cuda.survey")
