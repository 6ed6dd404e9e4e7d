"""A test of drivers' compilers in child processes, run once for each driver: some abort a process that compiles legal OpenCL C.

PoCL 3.0 does not recognise processors that are newer than itself, and treats one with AVX-512 as one without. It then aborts when it
compiles 512-bit vectors or library functions of them, or produces a program without kernels. ``python -m portatile.device.opencl.probe
PLATFORM DEVICE NAME...`` is the child.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from portatile import delays, processes, settings
from portatile.cache import Cache
from portatile.device.opencl import icd
from portatile.device.opencl.driver import cl
from portatile.records import digest

if sys.platform != "win32":
    import fcntl

_FORMAT = "driver probe 3"
_PATIENCE = 60.0  # seconds for a child, which compiles three small kernels
_MOST_BYTES = 1 << 20  # of results that are cached
_ITEMS = 4


@dataclass(frozen=True)
class Probe:
    """A kernel that a driver must build and run: given (x: global float16 *, y: global float16 *), y becomes ``expected`` where x is 1."""

    text: str
    expected: float
    options: tuple[str, ...] = ()


# Two bfloat16 values, or the bytes 0x80, 0x3f twice, in all lanes of registers that the compiler may not know; and functions of Clang
# that kernels with such instructions call.
_DOT = r"""uint w[16]; float z[16]; uchar8 none = (uchar8)(0); __builtin_prefetch(x);
for (int j = 0; j < 16; ++j) { w[j] = as_uint(x[i].s0) | as_uint(x[i].s1) >> 16; z[j] = __builtin_convertvector(none, uint8).s1; }
__asm__ volatile("vmovups (%1), %%zmm0\n\tvmovdqu32 (%0), %%zmm1\n\tvpbroadcastd (%0), %%zmm2\n\t"
    "{}\n\tvmovups %%zmm0, (%1)\n\tvzeroupper" : : "r"(w), "r"(z) : "memory", "xmm0", "xmm1", "xmm2");
for (int j = 0; j < 16; ++j) ((__global float*)(y + i))[j] = z[j];"""

# The float16 numbers 1, 2, 3 and 0.5 by turns, read from unaligned memory as kernels do: see pack.cl.
_HALVES = r"""typedef ushort8 loose8 __attribute__((aligned(2)));
ushort h[9]; const ushort one = (ushort)(x[i].s0 * 15360.0f);
h[1] = h[5] = one; h[2] = h[6] = one + 0x400; h[3] = h[7] = one + 0x600; h[4] = h[8] = one - 0x400;
const ushort8 bits = *(const loose8*)(h + 1); float8 wide;
__asm__("vcvtph2ps %1, %0" : "=x"(wide) : "x"(bits));
y[i] = (float16)(wide.s0 + wide.s5 + wide.s6 + wide.s7);"""


def _dot(instruction: str) -> str:
    """The body of a kernel that runs an instruction and stores what zmm0 holds then."""
    return _DOT.replace("{}", instruction)


PROBES: Mapping[str, Probe] = {
    "wide_arithmetic": Probe("float16 a = x[i] * 3.0f + x[i + 1]; a += as_float16(as_int16(x[i + 2]) << 0); y[i] = a * 2.0f;", 10.0),
    "wide_functions": Probe("float16 a = fma(x[i], x[i + 1], sqrt(x[i + 2])); y[i] = select(rint(a), x[i], a > x[i] * 9.0f);", 2.0),
    "relaxed_math": Probe("y[i] = (float16)(sin(x[i].s0 - 1.0f) + native_sqrt(x[i].s1 * 4.0f));", 2.0, ("-cl-fast-relaxed-math",)),
    "dot_bfloat16": Probe(_dot("vdpbf16ps %%zmm1, %%zmm2, %%zmm0"), 2.0),
    "dot_int8": Probe(_dot(r"vpdpbusd %%zmm1, %%zmm2, %%zmm0\n\tvcvtdq2ps %%zmm0, %%zmm0"), 2.0 * (63 * 63 - 128 * 128)),
    "half_vectors": Probe(_HALVES, 6.5),
    "half": Probe("half h = (half)x[i].s0; h = h + (half)1.5f; y[i] = (float16)((float)h);", 2.5),
}
"""The probes, by the capability that each one tests."""
NEEDS: Mapping[str, str] = {"dot_bfloat16": "avx512_bf16", "dot_int8": "avx512_vnni", "half_vectors": "f16c"}
"""The instruction set that Linux must report for a probe to be tried; if it reports none, no such probe is tried."""

_KERNEL = "__kernel void probe(__global const float16 *x, __global float16 *y) {{ const int i = get_global_id(0); {} }}\n"
_HALF = "#pragma OPENCL EXTENSION cl_khr_fp16 : enable\n"


def survives(platform: int, device: int, handle: Any, names: Sequence[str]) -> frozenset[str]:
    """The features of ``names`` that the driver of a device compiles and runs; ``handle`` is the ``pyopencl.Device`` with these numbers.

    Results are kept in the user's cache folder for each driver and processor. Where child processes cannot run, the results of most drivers
    are assumed.
    """
    folder = settings.drivers_folder()
    outcomes, key = Cache(folder, _MOST_BYTES), digest(_FORMAT, *_driver(handle), *names)
    if (known := _cached_results(outcomes, key)) is not None:
        return known
    with _one_process_at_a_time(folder):
        if (known := _cached_results(outcomes, key)) is not None:
            return known
        delays.notice(f"finding out what {handle.platform.name} compiles here; this takes some seconds, once")
        try:
            survived = _probed(platform, device, names)
        except OSError:
            return frozenset(names) - {"wide_functions", *NEEDS}
        outcomes.put(key, msgspec.json.encode(sorted(survived)))
    return survived


def _cached_results(outcomes: Cache, key: str) -> frozenset[str] | None:
    """The results of an earlier process; None if there are none, or they are in another version's format."""
    raw = outcomes.get(key)
    if raw is None:
        return None
    try:
        return frozenset(msgspec.json.decode(raw, type=list[str]))
    except msgspec.DecodeError:
        return None


@contextmanager
def _one_process_at_a_time(folder: Path) -> Iterator[None]:
    """Let one process at a time probe a driver; others wait and find its results. Where files cannot be locked, each process probes."""
    with ExitStack() as opened:
        with suppress(OSError):
            if sys.platform != "win32":
                folder.mkdir(parents=True, exist_ok=True)
                fcntl.flock(opened.enter_context((folder / "asking").open("ab")), fcntl.LOCK_EX)
        yield


def _driver(handle: Any) -> tuple[str, ...]:
    """The driver and the processor, by their own descriptions: the results depend on both."""
    return handle.platform.version, handle.driver_version, handle.version, handle.name, _processor()


def supported_by_processor(names: Sequence[str]) -> tuple[str, ...]:
    """The features of ``names`` whose instructions the processor has, according to Linux."""
    flags = set(_processor().split())
    return tuple(name for name in names if name not in NEEDS or NEEDS[name] in flags)


def _processor(path: Path = Path("/proc/cpuinfo")) -> str:
    """Model and instruction sets of the first core, according to Linux."""
    try:
        core = path.read_text(errors="replace").split("\n\n", 1)[0]
    except OSError:
        return ""
    return "\n".join(line for line in core.splitlines() if line.split("\t")[0].strip() in ("cpu family", "model", "flags", "Features"))


def _probed(platform: int, device: int, names: Sequence[str]) -> frozenset[str]:
    """Run the probes in child processes, one after another: each continues after the probe that its predecessor did not survive.

    A probe that times out is repeated once: the machine may have been busy, and the result is kept for good.
    """
    left, survived, late = list(names), set[str](), ""
    with tempfile.TemporaryDirectory(prefix="portatile-probe-") as folder:
        environment = {**processes.environment(), "POCL_CACHE_DIR": folder}  # an aborted build must leave no files behind
        while left:
            command = [sys.executable, "-m", __name__, str(platform), str(device), *left]
            try:
                done = subprocess.run(command, capture_output=True, timeout=_PATIENCE, check=False, env=environment)
                output, in_time = done.stdout, True
            except subprocess.TimeoutExpired as error:
                output, in_time = error.stdout or b"", False
            answers = dict(line.split(" ", 1) for line in output.decode(errors="replace").splitlines() if line.endswith((" yes", " no")))
            answers = {name: answer for name, answer in answers.items() if name in left}
            survived |= {name for name, answer in answers.items() if answer == "yes"}
            left = left[len(answers) :]
            again = not in_time and left[:1] != [late]
            late = left[0] if again and left else ""
            left = left if again else left[1:]
    return frozenset(survived)


def _run_child(platform: int, device: int, names: Sequence[str]) -> None:
    """The child process: try each probe and report its outcome at once."""
    with icd.vendors():
        handle = cl.get_platforms()[platform].get_devices()[device]
    context = cl.Context([handle])
    for name in names:
        print(name, "yes" if _runs(context, PROBES[name], _HALF if name == "half" else "") else "no", flush=True)


def _runs(context: Any, probe: Probe, head: str) -> bool:
    """Whether a probe builds, has a binary, runs, and computes the expected value."""
    try:
        program = cl.Program(context, head + _KERNEL.format(probe.text))
        program.get_info(cl.program_info.REFERENCE_COUNT)  # disables pyopencl's cache
        program.build([*probe.options])
        if not program.all_kernels() or not program.get_info(cl.program_info.BINARIES)[0]:
            return False
        queue = cl.CommandQueue(context)
        x, y = np.ones((_ITEMS + 2, 16), np.float32), np.zeros((_ITEMS, 16), np.float32)
        flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
        source, result = cl.Buffer(context, flags, hostbuf=x), cl.Buffer(context, flags, hostbuf=y)
        cl.Kernel(program, "probe")(queue, (_ITEMS,), (1,), source, result)
        cl.enqueue_copy(queue, y, result)
    except cl.Error:
        return False
    return bool((y == probe.expected).all())


if __name__ == "__main__":
    processes.end_with_parent()
    _run_child(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
