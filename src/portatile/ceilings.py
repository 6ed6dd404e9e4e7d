"""Ceilings: the highest measured throughput of a device's memory, transfers and arithmetic, stored in a JSON file for each device."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import msgspec

from portatile import settings
from portatile.cache import replace_file
from portatile.errors import StoreError
from portatile.formatting import percent
from portatile.model import BEYOND_CACHES
from portatile.records import DeviceInfo, Problem, Value, from_json, to_json
from portatile.store import device_key
from portatile.trials import now
from portatile.user_warnings import warn
from portatile.workload import Workload

Unit = Literal["B/s", "flop/s", "op/s"]

STREAMS = ("copy", "mul", "add", "triad", "dot")
DIRECTIONS = ("htod", "dtoh", "dtod")
MEASURING = ("stream", "peak")
"""The workloads that measure ceilings: their results are not judged by earlier ceilings."""

_BYTES = {"cpu": 1 << 26}  # bytes of a stream's array: many times a core's cache. On other devices two arrays together have BEYOND_CACHES
_TELLING = 0.5  # the least share of a known ceiling that identifies the bottleneck if traffic or the arithmetic ceiling is unknown

BRIEF = "brief"
"""A detail of a measurement that took a fraction of a second, at the first use of the device: the number of attempts."""

BUSY = "busy"
"""A detail of a measurement on a processor that other programs were using at that time."""

MATRIX_UNITS = 16.0
"""A generous bound on how much faster a device's matrix units are than plain instructions."""


@dataclass(frozen=True)
class Measured:
    """One quantity, measured on one device.

    ``name``: one of ``STREAMS``, ``fp32``, ``fp64``, ``mma``, ``special``, ``local``, or one of ``DIRECTIONS``. ``work``: bytes,
    floating-point operations or function values of one run; ``samples``: seconds per run, all of them; ``details`` say how it was measured.
    """

    name: str
    unit: Unit
    work: float
    samples: tuple[float, ...]
    details: Mapping[str, Value] = field(default_factory=dict)
    time: str = ""

    @property
    def rate(self) -> float:
        """The rate of the fastest run, in ``unit``."""
        return self.work / min(self.samples)

    @property
    def brief(self) -> bool:
        """Whether it took only a fraction of a second; the device may be slightly faster."""
        return bool(self.details.get(BRIEF))

    @property
    def key(self) -> tuple[object, ...]:
        """The identity of the measured quantity: transfers of each size and kind of memory are separate quantities."""
        fields = ("memory", "bytes") if self.name in DIRECTIONS else ("dtype", "quantity")
        return (self.name, *(self.details.get(name) for name in fields))


@dataclass(frozen=True)
class Ceilings:
    """Everything measured on one device with one driver; a quantity that was not measured is None.

    Arithmetic rates are those of multiply-add chains in plain instructions, except ``mma``; matrix units may be faster (``MATRIX_UNITS``).
    """

    device: DeviceInfo
    measured: tuple[Measured, ...] = ()
    time: str = ""

    @property
    def brief(self) -> bool:
        """Whether anything was measured only briefly."""
        return any(m.brief for m in self.measured)

    @property
    def disturbed(self) -> bool:
        """Whether anything was measured on a processor that other programs were using."""
        return any(m.details.get(BUSY) for m in self.measured)

    @property
    def driver(self) -> str:
        """The driver with which they were measured."""
        return self.device.driver

    @property
    def samples(self) -> dict[str, tuple[float, ...]]:
        """Seconds per run of each quantity but the transfers, by name, dtype and operation."""
        return {" ".join(str(part) for part in m.key if part is not None): m.samples for m in self.measured if m.name not in DIRECTIONS}

    @property
    def copy(self) -> float | None:
        """Reading and writing device memory, c[i] = a[i], in GB/s (10^9 bytes) of both together."""
        return _giga(self.best("copy"))

    @property
    def triad(self) -> float | None:
        """a[i] = b[i] + scalar c[i], in GB/s of three arrays."""
        return _giga(self.best("triad"))

    @property
    def bandwidth(self) -> float | None:
        """The best of all stream kernels, in GB/s."""
        return _giga(max((rate for name in STREAMS if (rate := self.best(name)) is not None), default=None))

    @property
    def fp32(self) -> float | None:
        """float32 multiply-adds, in flop/s (two to each)."""
        return self.best("fp32")

    @property
    def fp64(self) -> float | None:
        """float64 multiply-adds, in flop/s (two to each)."""
        return self.best("fp64")

    @property
    def mma(self) -> float | None:
        """float64 multiply-adds of matrix units, in flop/s; None on devices without matrix units for float64."""
        return self.best("mma")

    @property
    def special(self) -> float | None:
        """float32 inverse roots, sines, cosines or exponentials per second, whichever is fastest."""
        return self.best("special")

    @property
    def local_memory(self) -> float | None:
        """Reading local memory, in GB/s."""
        return _giga(self.best("local"))

    @property
    def transfers(self) -> tuple[Measured, ...]:
        """Every transfer measured: ``details`` hold ``memory`` (pinned, pageable, device) and ``bytes``."""
        return tuple(m for m in self.measured if m.name in DIRECTIONS)

    def best(self, name: str) -> float | None:
        """The highest rate measured under a name, in its own unit (B/s, flop/s, op/s)."""
        return max((m.rate for m in self.measured if m.name == name), default=None)

    def flops(self, dtype: str) -> float | None:
        """flop/s of plain instructions on elements of ``dtype``."""
        return {"float32": self.fp32, "float64": self.fp64}.get(dtype)

    def arithmetic(self, dtype: str, products: bool = False) -> tuple[str, float] | None:
        """The ceiling of multiply-adds on ``dtype``: ``fp32``, ``fp64`` or, for matrix products, ``mma``; and its flop/s."""
        names = {"float32": ("fp32",), "float64": ("mma", "fp64") if products else ("fp64",)}.get(dtype, ())
        known = [(name, rate) for name in names if (rate := self.best(name)) is not None]
        return max(known, key=lambda item: item[1], default=None)

    def transfer(self, direction: str, memory: str = "pinned") -> float | None:
        """The best rate of a direction (``htod``, ``dtoh``, ``dtod``) in GB/s; ``memory`` is ignored for ``dtod``."""
        rates = [m.rate for m in self.transfers if m.name == direction and (direction == "dtod" or m.details.get("memory") == memory)]
        return _giga(max(rates, default=None))

    def shares(self, work: Work, seconds: float) -> dict[str, float]:
        """The fractions of the known ceilings that a run of ``seconds`` reached; the largest one is the bottleneck.

        ``arithmetic``, or ``matrix units`` if a product's ceiling is theirs; ``memory``; ``special`` functions, for devices with a unit for
        them (a CPU computes them by plain arithmetic). A fraction above 1 is possible: for ``memory`` if the data stays in a cache, for
        ``special`` if polynomials compute some of the functions instead of the unit.
        """
        arithmetic = self.arithmetic(work.dtype, work.products)
        named = "matrix units" if arithmetic is not None and arithmetic[0] == "mma" else "arithmetic"
        peaks = {
            named: (work.flops, arithmetic[1] if arithmetic is not None else None),
            "memory": (work.traffic, None if self.bandwidth is None else 1e9 * self.bandwidth),
            "special": (work.functions, None if self.device.kind == "cpu" or not work.functions else self.special),
        }
        return {name: amount / seconds / peak for name, (amount, peak) in peaks.items() if peak}


@dataclass(frozen=True)
class Work:
    """The work of one run: floating-point operations on elements of ``dtype``, the fewest bytes, special functions (in float32).

    ``products``: the operations are those of a matrix product, which matrix units may perform.
    """

    dtype: str
    flops: float
    traffic: float
    functions: float = 0.0
    products: bool = False


def work_of(workload: Workload, problem: Problem) -> Work:
    """The work of a problem, as its workload counts it."""
    flops, traffic = workload.flops(problem), workload.traffic(problem)
    return Work(problem.dtype, flops, traffic, workload.functions(problem), workload.products)


@dataclass(frozen=True)
class Binding:
    """The ceiling that a run is nearest to, and the fraction of it that the run reached."""

    name: str
    share: float

    def __str__(self) -> str:
        """``73 % memory``."""
        return f"{percent(self.share)} {self.name}"


def binding(known: Ceilings | None, work: Work, seconds: float) -> Binding | None:
    """The ceiling that limits a run of ``seconds``; None if too little is known."""
    if known is None:
        return None
    name, share = max(known.shares(work, seconds).items(), key=lambda item: item[1], default=("", 0.0))
    arithmetic = not work.flops or known.arithmetic(work.dtype, work.products) is not None
    certain = (arithmetic and work.traffic > 0) or share >= _TELLING
    return Binding(name, share) if share > 0 and certain else None


def stream_bytes(device: DeviceInfo) -> int:
    """The least bytes of an array with which a stream measures memory rather than a cache, if the device can hold it."""
    return min(_BYTES.get(device.kind, BEYOND_CACHES // 2), device.max_allocation // 2, device.global_memory // 8)


def through_memory(measured: Measured, device: DeviceInfo) -> bool:
    """Whether a measurement is of memory rather than a cache: a stream with arrays of at least ``stream_bytes``, or no stream."""
    n = measured.details.get("n")
    if measured.name not in STREAMS or n is None:
        return True
    # -7: a remainder smaller than an element
    return int(n) * (8 if measured.details.get("dtype") == "float64" else 4) >= stream_bytes(device) - 7


def load(device: DeviceInfo) -> Ceilings | None:
    """The ceilings measured on the device with its present driver; None if there are none, with a warning if they cannot be read.

    Examples:
        >>> from portatile import ceilings, device
        >>> ceilings.load(device.get().info)  # doctest: +SKIP
    """
    path = path_of(device)
    try:
        ceilings = from_json(path.read_bytes(), Ceilings)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, msgspec.DecodeError) as error:
        warn(f"the ceilings in {path} cannot be read ({error}); measure again with `portatile bench peak`", UserWarning)
        return None
    if (ceilings.device.driver, ceilings.device.compiler) != (device.driver, device.compiler):
        return None
    return replace(ceilings, measured=tuple(m for m in ceilings.measured if through_memory(m, device)))


def add(device: DeviceInfo, measured: Iterable[Measured], fresh: bool = False) -> Ceilings:
    """Add measurements to the stored ones of the device with its present driver; returns all of them.

    Of two measurements of one quantity the faster is stored, because a busy machine only lowers the rate; with ``fresh`` the new one, which
    replaces a brief measurement. A cache's rate (see ``through_memory``) is not stored. The file is replaced atomically, so that readers
    never see a partial file. Raises StoreError if it cannot be written.
    """
    known = load(device)
    merged = {m.key: m for m in (known.measured if known else ())}
    for new in (m for m in measured if through_memory(m, device)):
        old = merged.get(new.key)
        if fresh or old is None or (new.rate >= old.rate if new.brief == old.brief else old.brief):
            merged[new.key] = replace(new, time=new.time or now())
    ceilings = Ceilings(device, tuple(merged.values()), now())
    path = path_of(device)
    try:
        replace_file(path, to_json(ceilings))
    except OSError as error:
        raise StoreError(f"the ceilings cannot be written to {path}: {error}; set PORTATILE_DATA_DIR to a writable folder") from error
    return ceilings


def path_of(device: DeviceInfo) -> Path:
    """The file of a device: one for each hardware and back end, as in the result store."""
    return settings.load().data_dir / "ceilings" / f"{device_key(device)}.json"


def _giga(rate: float | None) -> float | None:
    return None if rate is None else rate / 1e9
