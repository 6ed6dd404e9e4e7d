"""The messages between the parent and its workers: data only, as length-prefixed MessagePack frames over pipes.

The parent sends Open once, then to a timing worker Cases (once), Evaluate and Race, to a compile worker Build. A worker answers
DeviceOpened, CasesLoaded (for Cases) or DeviceRefused, PhaseEntered whenever it begins a phase (the watchdog's clock), and Evaluated,
FinalistsTimed or Built. A closed pipe ends the worker.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from portatile.errors import ArgumentError
from portatile.images import ImageForm
from portatile.model import Screen
from portatile.records import DeviceInfo, Launch, Plan, Resources, Source
from portatile.trials import Status

Phase = str  # "open", "compile", "launch" (first runs and their check) or "run" (timed)


class Timing(msgspec.Struct, frozen=True):
    """The timing of a variant: ``samples`` bursts of back-to-back runs, each at least ``burst`` seconds long, in at most ``most`` seconds.

    A variant that takes ``give_up`` times as long as the best is not sampled further. The final comparison takes at most ``race``
    seconds, or longer where runs are so long that these allow only a few rounds; 0 for none. With ``cold`` every run is timed alone,
    with operands that no cache holds. ``power``: seconds under load for which the power is measured, 0 for the sensor's value right
    after the timing.
    """

    samples: int = 7
    burst: float = 0.005
    most: float = 0.5
    give_up: float = 3.0
    race: float = 3.0
    cold: bool = False
    power: float = 0.0


class Slice(msgspec.Struct, frozen=True):
    """A one-dimensional array in the shared memory: ``size`` elements from byte ``offset``."""

    offset: int
    dtype: str
    size: int


class ExpectedSlices(msgspec.Struct, frozen=True):
    """A workload's ``Expected`` in the shared memory."""

    values: Slice
    scale: Slice
    indices: Slice | None
    reduction: str = ""


class Case(msgspec.Struct, frozen=True):
    """A problem that every variant is checked on; the last case is the one that is timed. ``forms`` has the operands that are images.

    ``factors``: its scalars, complex ones as pairs.
    """

    label: str
    operands: Mapping[str, Slice]
    roles: Mapping[str, str]
    factors: Mapping[str, float | tuple[float, float]]
    expected: Mapping[str, ExpectedSlices]
    forms: Mapping[str, ImageForm] = {}

    @property
    def scalars(self) -> dict[str, Any]:
        """The scalars as numbers."""
        return {name: complex(*value) if isinstance(value, (tuple, list)) else value for name, value in self.factors.items()}


def complex_as_pairs(scalars: Mapping[str, Any]) -> dict[str, float | tuple[float, float]]:
    """Scalars in the form of ``Case.factors``: complex ones as pairs of real and imaginary part."""
    return {name: (value.real, value.imag) if isinstance(value, complex) else value for name, value in scalars.items()}


class Open(msgspec.Struct, frozen=True, tag=True):
    """Open a device, or for a compile worker only the compiler of the device ``compiles``."""

    selector: str | None
    cache: str
    cache_limit: int
    arena: int = -1
    compiles: DeviceInfo | None = None


class Cases(msgspec.Struct, frozen=True, tag=True):
    """The cases to check and to time on. ``draft``: what the worker compiles is used by itself alone, and need not become a binary."""

    cases: tuple[Case, ...]
    draft: bool = False


class VariantPart(msgspec.Struct, frozen=True):
    """A variant's plan for one case, and its error bound; the plan's sources are numbers until ``restore_sources`` is called."""

    case: int
    plan: Plan
    bound: float


class Evaluate(msgspec.Struct, frozen=True, tag=True):
    """Check one variant on every part and time it on the last one.

    ``best`` is the fastest so far, in seconds; in the final comparison, what this variant took before. With ``screen`` the model may
    reject it. One that is not ``timed`` is only checked.
    """

    number: int
    sources: tuple[Source, ...]
    parts: tuple[VariantPart, ...]
    timing: Timing
    best: float | None
    screen: Screen | None = None
    timed: bool = True


class Race(msgspec.Struct, frozen=True, tag=True):
    """Hold the final comparison: check the variants again and time them in turns until they can be told apart, at most ``seconds``.

    Loading and compiling count, but the rounds get ``least`` seconds however long that took.
    """

    entries: tuple[Evaluate, ...]
    seconds: float
    least: float = 0.0


class Build(msgspec.Struct, frozen=True, tag=True):
    """Compile sources into the cache. ``single``: most launches of the run have work-groups of one work-item."""

    number: int
    sources: tuple[Source, ...]
    single: bool = False


class DeviceOpened(msgspec.Struct, frozen=True, tag=True):
    """The device is open."""

    info: DeviceInfo


class CasesLoaded(msgspec.Struct, frozen=True, tag=True):
    """The operands are on the device."""


class DeviceRefused(msgspec.Struct, frozen=True, tag=True):
    """The device could not be opened: the name of the exception and its message."""

    error: str
    message: str


class PhaseEntered(msgspec.Struct, frozen=True, tag=True):
    """A phase begins; ``expected`` is how many seconds it should last (0: not known)."""

    phase: Phase
    expected: float = 0.0


class Evaluated(msgspec.Struct, frozen=True, tag=True):
    """The outcome of a variant, in the terms of a Trial.

    ``errors``: of each part in order, in units of its bound. ``conditions``: see Trial. ``broken``: the device can no longer be
    trusted, and the worker ends.
    """

    number: int
    status: Status
    samples: tuple[float, ...] = ()
    event_samples: tuple[float, ...] = ()
    seconds: Mapping[str, float] = {}
    error: float | None = None
    message: str = ""
    resources: Mapping[str, Resources] = {}
    broken: bool = False
    errors: tuple[float, ...] = ()
    conditions: Mapping[str, float] = {}


class FinalistsTimed(msgspec.Struct, frozen=True, tag=True):
    """The outcome of each finalist. Where the final comparison could not be held, only of those that failed; ``message`` says why."""

    outcomes: tuple[Evaluated, ...] = ()
    message: str = ""
    broken: bool = False


class Built(msgspec.Struct, frozen=True, tag=True):
    """The sources are in the cache, or ``message`` says why they do not compile."""

    number: int
    seconds: Mapping[str, float]
    failed: bool = False
    message: str = ""


Request = Open | Cases | Evaluate | Race | Build
Reply = DeviceOpened | CasesLoaded | DeviceRefused | PhaseEntered | Evaluated | FinalistsTimed | Built

NUMBER = struct.Struct("<i")
"""How the process that forks workers tells the number of one, and then its exit status."""

_HEAD = struct.Struct("<Q")
_LONGEST = 1 << 31  # a longer frame is invalid
_encoder = msgspec.msgpack.Encoder()
_requests = msgspec.msgpack.Decoder(Request)
_replies = msgspec.msgpack.Decoder(Reply)


def frame(message: Request | Reply) -> bytes:
    """A message as bytes for the pipe."""
    body = _encoder.encode(message)
    return _HEAD.pack(len(body)) + body


def request(body: bytes) -> Request:
    """A frame's body as the worker reads it."""
    message: Request = _requests.decode(body)
    return message


class Frames:
    """Splits a stream of bytes into the bodies of whole frames."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The bodies that ``data`` completes; raises ArgumentError for what cannot be a frame."""
        self._buffer += data
        while len(self._buffer) >= _HEAD.size:
            (length,) = _HEAD.unpack_from(self._buffer)
            if length > _LONGEST:
                raise ArgumentError(f"a frame of {length} bytes")
            end = _HEAD.size + length
            if len(self._buffer) < end:
                return
            body = bytes(self._buffer[_HEAD.size : end])
            del self._buffer[:end]
            yield body


def reply(body: bytes) -> Reply:
    """A frame's body as the parent reads it; raises ``msgspec.MsgspecError`` for an invalid message."""
    message: Reply = _replies.decode(body)
    return message


def strip_sources(plan: Plan, sources: list[Source]) -> Plan:
    """A flat plan with numbers in place of its sources, which are appended to ``sources``: many launches of one text carry it once."""
    steps = []
    for step in plan.steps:
        assert isinstance(step, Launch)
        if step.source not in sources:
            sources.append(step.source)
        steps.append(msgspec.structs.replace(step, source=Source(str(sources.index(step.source)), "")))
    return replace(plan, steps=tuple(steps))


def restore_sources(plan: Plan, sources: Sequence[Source]) -> Plan:
    """The plan that ``strip_sources`` was given."""
    steps = (msgspec.structs.replace(step, source=sources[int(step.source.file)]) for step in plan.steps if isinstance(step, Launch))
    return replace(plan, steps=tuple(steps))
