"""Run the kernels of this folder: NumPy and pyopencl (OpenCL), or NumPy and NVIDIA's driver (CUDA), are all it needs.

    import loader
    multiply = loader.load("gemm", m=512, n=512, k=512)
    c = multiply(a=a, b=b, alpha=2.0)

kernels.json beside this file says which kernels run in which order for each problem, and what every array looks like.
portatile wrote this file, and it imports nothing of portatile.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from portatile.shipping.loader.cuda_devices import find_cuda
from portatile.shipping.loader.opencl_devices import UNREGISTERED, find_opencl
from portatile.shipping.loader.table import check, is_number, problems

_FOUND_BY: dict[str, Any] = {function.__name__.removeprefix("find_"): function for function in (find_opencl, find_cuda)}
"""Functions that find devices, by the back end's name in the table."""


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
        for hardware in _FOUND_BY.get(tuned["backend"], list)():
            present.append(f"{hardware.name} ({tuned['backend']})")
            if (
                device.lower() in hardware.name.lower()
                if device
                else (hardware.name, hardware.platform) == (tuned["name"], tuned["platform"])
            ):
                return Loaded(problem, hardware)
    device_names = device or ", ".join(sorted({p["device"]["name"] for p in fitting}))
    there = ", ".join(dict.fromkeys(present)) or "none"
    advice = UNREGISTERED if any(_FOUND_BY.get(p["device"]["backend"]) is find_opencl for p in fitting) else ""
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
        check(problem)
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
            returned = [name for name, operand in self.operands.items() if operand["role"] == "out"]
            hint = f"; returned, not passed: {returned}" if returned else ""
            raise TypeError(f"{len(arrays)} arrays for the {len(read)} that are read: {read}{hint}")
        arguments = dict(zip(read, arrays, strict=False)) | {name: value for name, value in named.items() if name in self.operands}
        scalars = self.problem["scalars"] | {name: value for name, value in named.items() if name not in self.operands}
        if wrong := scalars.keys() - self.problem["scalars"].keys():
            raise TypeError(f"unknown {sorted(wrong)}; arrays: {list(self.operands)}, scalars: {list(self.problem['scalars'])}")
        for name, value in scalars.items():
            if not is_number(value) and not (self.complex and isinstance(value, complex | np.complexfloating)):
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
        if isinstance(arg["value"], str):  # a vector or structure
            return np.void(bytes.fromhex(arg["value"]))
        return np.dtype(arg["dtype"]).type(scalars[arg["name"]] if arg["value"] is None else arg["value"])
