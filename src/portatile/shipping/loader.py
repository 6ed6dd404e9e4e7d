"""Run the kernels of this folder: NumPy and pyopencl (OpenCL), or NumPy and NVIDIA's driver (CUDA), are all it needs.

    import loader
    multiply = loader.load("gemm", m=512, n=512, k=512)
    c = multiply(a=a, b=b, alpha=2.0)

kernels.json beside this file says which kernels run in which order for each problem, and what every array looks like.
The file is copied into every exported folder: so it is one, longer than others, and imports nothing of portatile.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import json
import math
import os
import struct
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
FORMAT = "portatile-folder-1"
_ROLES = ("in", "out", "inout")
_DTYPES: tuple[str, ...] = ("bool", "float16", "float32", "float64", "complex64", "complex128")
_DTYPES += tuple(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))
_ALIGNMENT = 128  # bytes; where each of several local arguments of a CUDA kernel begins
_VENDORS = Path("/etc/OpenCL/vendors")  # where a system's OpenCL libraries are registered
_NVIDIA = "libnvidia-opencl.so.1"  # which containers mount and do not register
_NVIDIA_FOLDERS = ("", "/usr/local/nvidia/lib64/", "/usr/lib/x86_64-linux-gnu/", "/usr/lib64/", "/usr/lib/wsl/lib/")
_NVIDIA_NODES = ("/dev/nvidiactl", "/dev/dxg", "/proc/driver/nvidia/version")
_UNREGISTERED = (
    ". An OpenCL library that is installed but not registered is found if, before Python starts, OCL_ICD_VENDORS is set to a folder "
    f"with a file NAME.icd that holds the library's path, beside copies of those in {_VENDORS}"
)
_PITCH = 512  # bytes; textures and their rows begin at a multiple of it
_LINEAR, _PITCH2D, _BORDER = 2, 3, 3  # names of the CUDA driver's header, by number
_SWIZZLE_128B, _PROMOTION_128B, _ELEMENTS = 3, 2, {1: 0, 2: 1, 4: 2}  # of tensor maps; elements by their bytes
_DYNAMIC_SHARED, _CC_MAJOR, _CC_MINOR, _OPT_IN_BYTES = 8, 75, 76, 48 * 1024  # names of the CUDA driver's header, by number


def problems() -> list[dict[str, Any]]:
    """The problems of the folder: workload, sizes, options, dtype, device, config and launches of each.

    Raises ValueError for a table that is damaged or of another format.
    """
    table: dict[str, Any] = json.loads((HERE / "kernels.json").read_text(encoding="utf-8"))
    if table.get("format") != FORMAT:
        raise ValueError(f"kernels.json is of format {table.get('format')!r}; this loader reads {FORMAT!r}")
    if table.get("digest") != table_digest(table):
        raise ValueError("kernels.json was changed or damaged: its digest is not that of its content; export the folder again")
    return [{**problem, "programs": table["programs"]} for problem in table["problems"]]


def table_digest(table: dict[str, Any]) -> str:
    """What ``digest`` must be in a table with these ``format``, ``problems`` and ``programs``. It tells damage, and no author."""
    parts = {name: part for name, part in table.items() if name != "digest"}
    return _digest(json.dumps(parts, sort_keys=True, separators=(",", ":")).encode())


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def load(workload: str, *, dtype: str | None = None, device: str | None = None, **sizes: int | str | bool) -> Loaded:
    """The kernels of a problem, ready on the device that they were tuned for, or on the one whose name contains ``device``.

    ``sizes`` are the problem's sizes and options by name. What they and ``dtype`` leave open must be in the folder only once.

    Raises LookupError where the folder or the machine has none such, with what there is.
    """
    if not any(p["workload"] == workload for p in problems()):
        raise LookupError(f"this folder has no {workload!r}; it has {', '.join(sorted({p['workload'] for p in problems()})) or 'nothing'}")
    known = [p for p in problems() if p["workload"] == workload and dtype in (None, p["dtype"])]
    fitting = [p for p in known if {**p["sizes"], **p["options"]}.items() >= sizes.items()]
    if len(_spelled(fitting)) != 1:
        matches = f"has no {workload} with" if not fitting else f"has {len(_spelled(fitting))} of {workload} with"
        raise LookupError(f"this folder {matches} {sizes}; it has {'; '.join(_spelled(fitting or known)) or f'none of {dtype}'}")
    present = []
    for problem in fitting:
        tuned = problem["device"]
        for hardware in _find.get(tuned["backend"], list)():
            present.append(f"{hardware.name} ({tuned['backend']})")
            if (
                device.lower() in hardware.name.lower()
                if device
                else (hardware.name, hardware.platform) == (tuned["name"], tuned["platform"])
            ):
                return Loaded(problem, hardware)
    device_names = device or ", ".join(sorted({p["device"]["name"] for p in fitting}))
    there = ", ".join(dict.fromkeys(present)) or "none"
    advice = _UNREGISTERED if any(_find.get(p["device"]["backend"]) is _find_opencl for p in fitting) else ""
    raise LookupError(f"no such device here: {device_names}; there is {there}. device= chooses one by name{advice}")


def _spelled(entries: list[dict[str, Any]]) -> list[str]:
    """The different problems among the entries, which may be for several devices."""
    named = (" ".join([p["dtype"], *(f"{n}={v}" for n, v in {**p["sizes"], **p["options"]}.items())]) for p in entries)
    return list(dict.fromkeys(named))


class Loaded:
    """A problem on a device. Call it with its arrays in order or by name, and its scalars by name.

    Returns what the kernels write: an array, or a dict of arrays where there are several.
    """

    def __init__(self, problem: dict[str, Any], hardware: Any) -> None:
        _check(problem)
        self.problem, self.hardware = problem, hardware
        self.operands = {operand["name"]: operand for operand in problem["operands"]}
        self.complex = any(operand["dtype"].startswith("complex") for operand in problem["operands"])
        kernels: dict[str, Any] = {}
        self.memory = {name: hardware.buffer(o["elements"] * np.dtype(o["dtype"]).itemsize) for name, o in self.operands.items()}
        self.memory |= {
            t["name"]: hardware.image(t) if t["kind"] == "image" else hardware.buffer(t["nbytes"]) for t in problem["temporaries"]
        }
        self._shown: dict[tuple[Any, ...], Any] = {}
        for temporary in problem["temporaries"]:
            if temporary.get("zeroed"):  # once: every run leaves zeros
                hardware.upload(self.memory[temporary["name"]], np.zeros(max(temporary["nbytes"], 4), np.uint8))
        for launch in problem["launches"]:
            if launch["program"] not in kernels:
                kernels[launch["program"]] = hardware.build(problem["programs"][launch["program"]])
        self.launches = [(hardware.kernel(kernels[one["program"]], one["symbol"]), one) for one in problem["launches"]]

    def __call__(self, *arrays: Any, **named: Any) -> Any:
        """Copy the arrays to the device, run, and copy the results back."""
        read = [name for name, operand in self.operands.items() if operand["role"] != "out"]
        if len(arrays) > len(read):
            raise TypeError(f"{len(arrays)} arrays for the {len(read)} that are read: {read}")
        arguments = dict(zip(read, arrays, strict=False)) | {name: value for name, value in named.items() if name in self.operands}
        scalars = self.problem["scalars"] | {name: value for name, value in named.items() if name not in self.operands}
        if wrong := scalars.keys() - self.problem["scalars"].keys():
            raise TypeError(f"unknown {sorted(wrong)}; arrays: {list(self.operands)}, scalars: {list(self.problem['scalars'])}")
        for name, value in scalars.items():
            if not _is_number(value) and not (self.complex and isinstance(value, complex | np.complexfloating)):
                raise TypeError(f"the scalar {name} is {value!r}, which is no {'' if self.complex else 'real '}number")
        hosts = {name: self._laid_out(name, arguments.get(name)) for name in self.operands}
        for name, host in hosts.items():
            self.hardware.upload(self.memory[name], host)
        for kernel, launch in self.launches:
            args = [self._argument(arg, scalars) for arg in launch["args"]]
            self.hardware.run(kernel, launch["global"], launch["local"], args)
        results = {}
        for name, operand in self.operands.items():
            if operand["role"] != "in":
                self.hardware.download(hosts[name], self.memory[name])
                results[name] = self._view(name, hosts[name]).copy()
        return results if len(results) > 1 else next(iter(results.values()))

    def _laid_out(self, name: str, array: Any) -> Any:
        """The array in the memory layout that the kernels were made for; zeros where none is given."""
        operand = self.operands[name]
        if array is None and operand["role"] == "in":
            raise TypeError(f"the array {name!r} is missing; its shape is {operand['shape']}")
        host = np.zeros(operand["elements"], operand["dtype"])
        if array is not None:
            if getattr(getattr(array, "dtype", None), "names", None):  # structures, as bytes along a last axis
                array = np.ascontiguousarray(array)
                array = array.view(np.uint8).reshape(*array.shape, array.itemsize)
            if list(np.shape(array)) != operand["shape"]:
                raise ValueError(f"{name} has shape {list(np.shape(array))}; this problem's is {operand['shape']}")
            self._view(name, host)[...] = array
        return host

    def _view(self, name: str, host: Any) -> Any:
        operand = self.operands[name]
        strides = [step * host.itemsize for step in operand["strides"]]
        return np.lib.stride_tricks.as_strided(host[operand["offset"] :], operand["shape"], strides)

    def _argument(self, arg: dict[str, Any], scalars: dict[str, Any]) -> Any:
        if arg["kind"] in ("buffer", "image"):
            return self.memory[arg["name"]]
        if arg["kind"] == "view":  # the same memory, read as an image of one row
            key = arg["name"], arg["dtype"], arg["channels"], arg["value"]
            if key not in self._shown:
                self._shown[key] = self.hardware.view(self.memory[arg["name"]], arg)
            return self._shown[key]
        if arg["kind"] == "tensor_map":
            return self.hardware.tensor_map(self.memory[arg["name"]], arg["map"])
        if arg["kind"] == "local":
            return self.hardware.local(arg["value"])
        return np.dtype(arg["dtype"]).type(scalars[arg["name"]] if arg["value"] is None else arg["value"])


def _check(problem: dict[str, Any]) -> None:
    """Raise ValueError where a problem's sizes, strides, names or launches do not fit: kernels would run outside their arrays."""
    arrays = {}
    for o in problem["operands"]:
        fits = _are_counts(0, *o["shape"], *o["strides"], o["offset"]) and _are_counts(1, o["elements"])
        if fits and 0 not in o["shape"]:
            fits = o["offset"] + sum((n - 1) * step for n, step in zip(o["shape"], o["strides"], strict=False)) < o["elements"]
        if not (fits and len(o["shape"]) == len(o["strides"]) and o["role"] in _ROLES and o["dtype"] in _DTYPES):
            raise ValueError(f"kernels.json: the operand {o['name']} does not lie in its memory")
        arrays[o["name"]] = o["elements"] * np.dtype(o["dtype"]).itemsize
    for t in problem["temporaries"]:
        image = t["kind"] == "image"
        if not (_are_counts(1, t["width"], t["height"], t["channels"]) if image else _are_counts(0, t["nbytes"])):
            raise ValueError(f"kernels.json: the temporary {t['name']} has no size")
        arrays[t["name"]] = t.get("nbytes", 0)
    if not all(map(_is_number, problem["scalars"].values())):
        raise ValueError("kernels.json: a scalar is no number")
    for launch in problem["launches"]:
        sizes = [launch["global"], launch["local"]]
        fits = all(len(size) == 3 and _are_counts(1, *size) for size in sizes) and not any(map(int.__mod__, *sizes))
        if not fits or launch["program"] not in problem["programs"]:
            raise ValueError(f"kernels.json: the launch of {launch['kernel']} has no whole work-groups, or no program")
        for arg in launch["args"]:
            if not _passes(arg, arrays, problem["scalars"]):
                raise ValueError(f"kernels.json: the argument {arg['name']} of {launch['kernel']} names nothing that it could be")


def _passes(arg: dict[str, Any], arrays: dict[str, int], scalars: dict[str, Any]) -> bool:
    """Whether an argument can be passed."""
    kind, value = arg["kind"], arg["value"]
    if kind == "view":
        pixels = value * arg["channels"] * np.dtype(arg["dtype"]).itemsize if _are_counts(1, value, arg["channels"]) else math.inf
        return pixels <= arrays.get(arg["name"], 0)
    if kind == "tensor_map":
        m = arg["map"]
        if not (_are_counts(0, *m.values()) and m["itemsize"] in (1, 2, 4)):
            return False
        end = m["offset"] + max(m["planes"] - 1, 0) * m["step"] + max(m["rows"] - 1, 0) * m["pitch"] + m["columns"] * m["itemsize"]
        return bool(end <= arrays.get(arg["name"], 0))
    if kind == "scalar":
        return arg["dtype"] in _DTYPES and (arg["name"] in scalars if value is None else _is_number(value))
    return arg["name"] in arrays if kind in ("buffer", "image") else kind == "local" and _are_counts(1, value)


def _are_counts(least: int, *values: Any) -> bool:
    return all(type(value) is int and least <= value < 2**48 for value in values)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def _part(name: str, digest: str) -> bytes:
    """A file of the folder; raises ValueError where it lies elsewhere or is not what was exported."""
    path = (HERE / name).resolve()
    if HERE not in path.parents:
        raise ValueError(f"kernels.json: {name} is no file of this folder")
    data = path.read_bytes()
    if _digest(data) != digest:
        raise ValueError(f"{name} was changed or damaged: its digest is not the one in kernels.json; export the folder again")
    return data


class _OpenCL:
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
                    data = _part(binary["file"], binary["digest"])
                    return self.cl.Program(self.context, [self.device], [data]).build()
        return self.cl.Program(self.context, _part(program["text"], program["digest"]).decode()).build(program["options"])

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


class _Cuda:
    """One GPU through NVIDIA's driver. ``driver`` is its library, or something with the same functions."""

    platform = "NVIDIA CUDA"

    def __init__(self, driver: Any, index: int) -> None:
        self.driver, self.index = driver, index
        self._context: Any = None
        text = ctypes.create_string_buffer(256)
        self._call("cuDeviceGetName", text, 256, index)
        self.name = text.value.decode()

    def _call(self, name: str, *args: Any) -> None:
        code = getattr(self.driver, name)(*args)
        if code:
            raise RuntimeError(f"{name} failed with CUDA's error {code}")

    def _ready(self) -> None:
        if self._context is None:
            self._context = ctypes.c_void_p()
            self._call("cuDevicePrimaryCtxRetain", ctypes.byref(self._context), self.index)
        self._call("cuCtxSetCurrent", self._context)

    def build(self, program: dict[str, Any]) -> Any:
        self._ready()
        major, minor = ctypes.c_int(), ctypes.c_int()
        self._call("cuDeviceGetAttribute", ctypes.byref(major), _CC_MAJOR, self.index)
        self._call("cuDeviceGetAttribute", ctypes.byref(minor), _CC_MINOR, self.index)
        here, binaries = f"sm_{major.value}{minor.value}", program["binaries"]
        cubin = next((b for b in binaries if b["kind"] == "cubin" and b["architecture"].rstrip("af") == here), None)
        chosen = cubin or next(b for b in binaries if b["kind"] == "ptx")  # for another GPU the driver compiles the PTX
        data = _part(chosen["file"], chosen["digest"]) + b"\0"
        module = ctypes.c_void_p()
        self._call("cuModuleLoadData", ctypes.byref(module), data)
        return module

    def kernel(self, module: Any, symbol: str) -> Any:
        function = ctypes.c_void_p()
        self._call("cuModuleGetFunction", ctypes.byref(function), module, symbol.encode())
        return function

    def buffer(self, nbytes: int) -> Any:
        self._ready()
        pointer = ctypes.c_uint64()
        self._call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(max(nbytes, 4)))
        return pointer

    def image(self, image: dict[str, Any]) -> Any:
        """Rows a whole number of ``_PITCH`` apart and a texture over them, in the structure that kernels take by value."""
        width, height = image["width"], image["height"]
        pitch = -(-width * _bytes(image) // _PITCH) * _PITCH
        pointer = self.buffer(pitch * height).value
        texture = self._texture(_PITCH2D, struct.pack("<QIIQQQ", pointer, *_format(image), width, height, pitch), image)
        return ctypes.create_string_buffer(struct.pack("<QQiiii", texture, pointer, width, height, pitch, _code(image)))

    def view(self, memory: Any, image: dict[str, Any]) -> Any:
        """A texture over memory, from an aligned address on, and how many pixels lie before the first."""
        pointer, pixel, width = memory.value, _bytes(image), image["value"]
        ahead = pointer % _PITCH // pixel
        row = struct.pack("<QIIQ", pointer - ahead * pixel, *_format(image), (ahead + width) * pixel)
        texture = self._texture(_LINEAR, row, image)
        fields = texture, pointer, width, 1, width * pixel, _code(image), 1, ahead
        return ctypes.create_string_buffer(struct.pack("<QQiiiiiI", *fields))

    def _texture(self, kind: int, place: bytes, image: dict[str, Any]) -> int:
        resource = struct.pack("<I4x128sI4x", kind, place, 0)
        sampling = struct.pack("<3III84x", *3 * (_BORDER,), 0, 0 if image["dtype"][0] == "f" else 1)  # nearest; integers as they are
        texture = ctypes.c_uint64()
        self._call("cuTexObjectCreate", ctypes.byref(texture), resource, sampling, None)
        return texture.value

    def tensor_map(self, memory: Any, form: dict[str, Any]) -> Any:
        """The 128 bytes by which the copy engine of compute capability 9.0 finds boxes of a matrix, or of a stack of them."""
        sides, pitches, box = [form["columns"], form["rows"]], [form["pitch"]], [form["wide"], form["high"]]
        if form["planes"]:
            sides, pitches, box = [*sides, form["planes"]], [*pitches, form["step"]], [*box, 1]
        descriptor = (ctypes.c_uint64 * 24)()  # the driver writes from a multiple of 64 bytes on
        place = ctypes.c_void_p(-(-ctypes.addressof(descriptor) // 64) * 64)
        matrix = _ELEMENTS[form["itemsize"]], len(sides), ctypes.c_void_p(memory.value + form["offset"])
        lists = (ctypes.c_uint64, sides), (ctypes.c_uint64, pitches), (ctypes.c_uint32, box), (ctypes.c_uint32, [1] * len(sides))
        geometry = [(kind * len(values))(*values) for kind, values in lists]
        self._call("cuTensorMapEncodeTiled", place, *matrix, *geometry, 0, _SWIZZLE_128B, _PROMOTION_128B, 0)
        return ctypes.create_string_buffer(ctypes.string_at(place, 128), 128)

    def local(self, nbytes: int) -> int:
        return nbytes

    def upload(self, memory: Any, array: Any) -> None:
        self._ready()
        self._call("cuMemcpyHtoD_v2", memory, ctypes.c_void_p(array.ctypes.data), ctypes.c_size_t(array.nbytes))

    def download(self, array: Any, memory: Any) -> None:
        self._call("cuMemcpyDtoH_v2", ctypes.c_void_p(array.ctypes.data), memory, ctypes.c_size_t(array.nbytes))

    def run(self, function: Any, work_items: list[int], group: list[int], args: list[Any]) -> None:
        dynamic = 0
        values: list[Any] = []
        for arg in args:
            if type(arg) is int:  # local memory: its offset is the argument
                values.append(ctypes.c_uint32(dynamic))
                dynamic += -(-arg // _ALIGNMENT) * _ALIGNMENT
            else:
                values.append(np.array(arg) if isinstance(arg, np.generic) else arg)
        places = [value.ctypes.data if isinstance(value, np.ndarray) else ctypes.addressof(value) for value in values]
        block = (ctypes.c_void_p * max(len(places), 1))(*places)
        if dynamic > _OPT_IN_BYTES:
            self._call("cuFuncSetAttribute", function, _DYNAMIC_SHARED, dynamic)
        grid = [count // size for count, size in zip(work_items, group, strict=True)]
        self._call("cuLaunchKernel", function, *grid, *group, dynamic, None, block, None)


def _bytes(image: dict[str, Any]) -> int:
    """The bytes of a pixel."""
    return int(image["channels"] * np.dtype(image["dtype"]).itemsize)


def _format(image: dict[str, Any]) -> tuple[int, int]:
    """The CUDA driver's number for the type of a channel, and how many there are."""
    return {"float32": 0x20, "float16": 0x10, "uint32": 3, "int32": 10}[image["dtype"]], image["channels"]


def _code(image: dict[str, Any]) -> int:
    """The same as kernels are told: channels, bytes of one, and their kind."""
    dtype = np.dtype(image["dtype"])
    return int(image["channels"] | dtype.itemsize << 8 | {"f": 1, "i": 2, "u": 3}[dtype.kind] << 16)


def _find_opencl() -> list[_OpenCL]:
    try:
        import pyopencl as cl
    except ImportError as error:
        raise ImportError("these kernels run through OpenCL: pip install pyopencl") from error
    try:
        return [_OpenCL(device) for platform in _platforms(cl) for device in platform.get_devices()]
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


def _find_cuda(driver: Any = None) -> list[_Cuda]:
    try:
        driver = driver or ctypes.CDLL("libcuda.so.1")
    except OSError:
        return []
    count = ctypes.c_int()
    if driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count)):
        return []
    return [_Cuda(driver, index) for index in range(count.value)]


_find: dict[str, Any] = {name.removeprefix("_find_"): function for name, function in list(globals().items()) if name.startswith("_find_")}
"""What looks for devices, by the name that the table has for their back end."""
