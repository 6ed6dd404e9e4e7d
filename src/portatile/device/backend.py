"""The definition of a back end: a folder beside this file whose ``__init__`` defines ``BACKEND = BackEnd(...)`` and imports none of the
folder's modules.

``BackEnd`` finds its parts by their file names: ``survey.py``, ``compiler.py``, ``datasheet.py``, ``vendor_blas.py``.
"""

from __future__ import annotations

import atexit
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Literal

from portatile.device.base import Device
from portatile.device.target import Target
from portatile.device.vendor_blas import VendorBlas
from portatile.errors import DeviceError, UsageError
from portatile.records import DeviceInfo

at_exit: list[Callable[[], None]] = []
"""Functions of the back ends that run in this order at the interpreter's exit, after the exit functions of modules that use devices:
``atexit`` runs first what was registered last.
"""


@atexit.register
def _close() -> None:
    for close in at_exit:
        close()


@dataclass(frozen=True)
class Finding:
    """Something that a back end looked for. ``level``: ``ok``, ``absent`` (not installed, which is no fault) or ``broken``.

    ``remedy`` says how to repair what is broken, or how to install what is absent.
    """

    level: Literal["ok", "absent", "broken"]
    subject: str
    detail: str
    remedy: str = ""


@dataclass(frozen=True)
class Survey:
    """The usable devices that a back end found, in a stable order, and its findings about the rest.

    ``found``: these findings, or a function that looks for them if that takes time which users of devices need not spend.
    """

    devices: tuple[Device, ...]
    found: tuple[Finding, ...] | Callable[[], tuple[Finding, ...]]

    @cached_property
    def findings(self) -> tuple[Finding, ...]:
        """What is usable, absent or broken."""
        return self.found() if callable(self.found) else self.found


@dataclass(frozen=True)
class CompilerProduct:
    """A form into which a back end compiles or translates kernel text: its name, which becomes ``Binary.kind``, and the suffix of its
    files.

    ``readable``: it is text. ``compiled``: it is the compiler's output rather than its input.
    """

    name: str
    ending: str
    readable: bool = False
    compiled: bool = True


@dataclass(frozen=True)
class BackEnd:
    """One way to reach devices, or a compiler for them.

    ``title`` is its name in messages. Where several back ends reach one device, the one of the highest ``rank`` is preferred. ``products``
    are the outputs of its compiler; its devices load the first. ``offline``: its compiler needs no device. ``usual`` is the architecture to
    compile for if none is named and no device is present.
    """

    name: str
    title: str
    rank: int
    products: tuple[CompilerProduct, ...]
    offline: bool = False
    usual: str = ""

    def survey(self) -> Survey:
        """Look for devices, without creating a context. Implemented in ``survey.py``."""
        survey: Survey = self._file("survey").survey()
        return survey

    def target(self, architecture: str, product: str = "") -> Target:
        """A compiler that needs no device, for one of ``products`` (default: the first). Implemented in ``compiler.py``.

        Raises DeviceNotFoundError where the compiler is missing or does not know the architecture, UsageError where it needs a device.
        """
        if not self.offline:
            raise UsageError(f"{self.title} compiles for devices that are here, not for {architecture!r}")
        target: Target = self._file("compiler").target(architecture, product or self.products[0].name)
        return target

    def datasheet(self, architecture: str) -> DeviceInfo | None:
        """A common device of an architecture, from its data sheet; None if it is not listed. Implemented in ``datasheet.py``."""
        if not self.offline:
            return None
        known: DeviceInfo | None = self._file("datasheet").datasheet(architecture)
        return known

    def datasheets(self) -> tuple[str, ...]:
        """The architectures that ``datasheet`` knows."""
        return tuple(self._file("datasheet").ARCHITECTURES) if self.offline else ()

    def vendor_blas(self, device: Device) -> VendorBlas:
        """A BLAS library to compare with on one of its devices, such as cuBLAS. Implemented in ``vendor_blas.py``.

        Raises DeviceError where the back end has none, or it is not installed.
        """
        if find_spec(f"{__package__}.{self.name}.vendor_blas") is None:
            raise DeviceError(f"there is no library of matrix products to compare with on {device.info.id}")
        library: VendorBlas = self._file("vendor_blas").vendor_blas(device)
        return library

    def product(self, name: str) -> CompilerProduct | None:
        """The product with this name, None if there is none."""
        return next((product for product in self.products if product.name == name), None)

    @property
    def assembly(self) -> str:
        """The name of the product that holds the compiled instructions as text, else of the one that devices load."""
        return next((product.name for product in self.products if product.readable and product.compiled), self.products[0].name)

    def _file(self, name: str) -> Any:
        return import_module(f"{__package__}.{self.name}.{name}")
