"""Devices of exported folders through pyopencl, and where libraries are that are not registered."""

from __future__ import annotations

import contextlib
import ctypes
import os
import tempfile
from pathlib import Path
from typing import Any

from portatile.shipping.loader.table import part

_VENDORS = Path("/etc/OpenCL/vendors")  # where a system's OpenCL libraries are registered
_NVIDIA = "libnvidia-opencl.so.1"  # which containers mount and do not register
_NVIDIA_FOLDERS = ("", "/usr/local/nvidia/lib64/", "/usr/lib/x86_64-linux-gnu/", "/usr/lib64/", "/usr/lib/wsl/lib/")
_NVIDIA_NODES = ("/dev/nvidiactl", "/dev/dxg", "/proc/driver/nvidia/version")
UNREGISTERED = (
    ". An OpenCL library that is installed but not registered is found if, before Python starts, OCL_ICD_VENDORS is set to a folder "
    f"with a file NAME.icd that holds the library's path, beside copies of those in {_VENDORS}"
)


class OpenCl:
    """One device through pyopencl."""

    def __init__(self, device: Any) -> None:
        import pyopencl as cl

        self.cl, self.device = cl, device
        self._context: Any = None
        self.name, self.platform = device.name.strip(), device.platform.name.strip()
        self.identity = [self.name, device.platform.version.strip(), device.driver_version.strip(), device.version.strip()]
        self.local = cl.LocalMemory

    @property
    def context(self) -> Any:
        if self._context is None:
            self._context = self.cl.Context([self.device])
            self.queue = self.cl.CommandQueue(self._context)
        return self._context

    def build(self, program: dict[str, Any]) -> Any:
        for binary in program["binaries"]:
            if binary.get("built_by") == self.identity:
                with contextlib.suppress(OSError, ValueError):  # a damaged one, on which drivers crash: the text is still there
                    data = part(binary["file"], binary["digest"])
                    return self.cl.Program(self.context, [self.device], [data]).build()
        return self.cl.Program(self.context, part(program["text"], program["digest"]).decode()).build(program["options"])

    def kernel(self, program: Any, symbol: str) -> Any:
        return self.cl.Kernel(program, symbol)

    def buffer(self, nbytes: int) -> Any:
        return self.cl.Buffer(self.context, self.cl.mem_flags.READ_WRITE, max(nbytes, 4))

    def image(self, image: dict[str, Any]) -> Any:
        shape = image["width"], image["height"]
        return self.cl.create_image(self.context, self.cl.mem_flags.READ_WRITE, self._pixel(image), shape=shape)

    def view(self, memory: Any, image: dict[str, Any]) -> Any:
        descriptor = self.cl.ImageDescriptor()
        descriptor.image_type, descriptor.buffer, descriptor.shape = self.cl.mem_object_type.IMAGE1D_BUFFER, memory, (image["value"], 1, 1)
        descriptor.array_size = descriptor.num_mip_levels = descriptor.num_samples = 0
        descriptor.pitches = (0, 0)
        return self.cl.Image(self.context, self.cl.mem_flags.READ_ONLY, self._pixel(image), desc=descriptor)

    def _pixel(self, image: dict[str, Any]) -> Any:
        order = {1: "R", 2: "RG", 4: "RGBA"}[image["channels"]]
        kind = {"float32": "FLOAT", "float16": "HALF_FLOAT", "uint32": "UNSIGNED_INT32", "int32": "SIGNED_INT32"}[image["dtype"]]
        return self.cl.ImageFormat(getattr(self.cl.channel_order, order), getattr(self.cl.channel_type, kind))

    def upload(self, memory: Any, array: Any) -> None:
        self.cl.enqueue_copy(self.queue, memory, array)

    def download(self, array: Any, memory: Any) -> None:
        self.cl.enqueue_copy(self.queue, array, memory)

    def run(self, kernel: Any, work_items: list[int], group: list[int], args: list[Any]) -> None:
        kernel.set_args(*args)
        self.cl.enqueue_nd_range_kernel(self.queue, kernel, work_items, group)


def find_opencl() -> list[OpenCl]:
    try:
        import pyopencl as cl
    except ImportError as error:
        raise ImportError("these kernels run through OpenCL: pip install pyopencl") from error
    try:
        return [OpenCl(device) for platform in _platforms(cl) for device in platform.get_devices()]
    except cl.Error:
        return []


def _platforms(cl: Any) -> list[Any]:
    """OpenCL's platforms, NVIDIA's also where nobody registered it. OpenCL's own loader looks once, at the first call of a process."""
    known = _registered()
    extra = _unregistered(known)
    if extra is None:
        return list(cl.get_platforms())
    with tempfile.TemporaryDirectory() as folder:
        for name, library in {**known, f"{_NVIDIA}.icd": extra}.items():  # the loader reads this folder in place of the system's
            Path(folder, name).write_text(library + "\n", encoding="utf-8")
        os.environ["OCL_ICD_VENDORS"] = folder
        try:
            return list(cl.get_platforms())
        finally:
            del os.environ["OCL_ICD_VENDORS"]


def _registered() -> dict[str, str]:
    """The system's .icd files that name a library: by file, a path that exists or a name for the dynamic linker."""
    libraries = {}
    for file in sorted(_VENDORS.glob("*.icd")):
        with contextlib.suppress(OSError):
            library = file.read_text(encoding="utf-8", errors="replace").strip()
            if "/" not in library or Path(library).exists():
                libraries[file.name] = library
    return libraries


def _unregistered(known: dict[str, str]) -> str | None:
    """NVIDIA's library where its kernel driver runs and none of ``known`` is it; None where there is nothing to add."""
    driven = any(Path(node).exists() for node in _NVIDIA_NODES)
    if os.environ.get("OCL_ICD_VENDORS") or not driven or any(library.endswith(_NVIDIA) for library in known.values()):
        return None
    for folder in _NVIDIA_FOLDERS:
        with contextlib.suppress(OSError):
            ctypes.CDLL(folder + _NVIDIA)
            return folder + _NVIDIA
    return None
