"""The definition of a back end: a folder beside this file whose ``__init__`` has ``BACKEND = BackEnd(...)`` and imports none of its
modules.

``BackEnd`` finds the parts by the names of their files: ``survey.py``, ``compiler.py``, ``datasheet.py``.
"""

from __future__ import annotations

import atexit
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal

from portatile.device.base import Device
from portatile.device.target import Target
from portatile.errors import UsageError
from portatile.records import DeviceInfo

at_exit: list[Callable[[], None]] = []
"""What back ends do when the interpreter ends, in this order, after all that still used their devices, which registered itself later."""


@atexit.register
def _close() -> None:
    for close in at_exit:
        close()


@dataclass(frozen=True)
class Finding:
    """Something that a back end looked for: ``level`` is ``ok``, ``absent`` (not installed, which is fine) or ``broken``.

    ``remedy`` says how to mend what is broken, or how to get what is absent.
    """

    level: Literal["ok", "absent", "broken"]
    subject: str
    detail: str
    remedy: str = ""


@dataclass(frozen=True)
class Survey:
    """The devices that a back end found, usable and in a stable order, and its findings about the rest."""

    devices: tuple[Device, ...]
    findings: tuple[Finding, ...]


@dataclass(frozen=True)
class Product:
    """Something that a back end makes of kernel text: its name, which is ``Binary.kind``, and the ending of its files.

    ``readable``: it is text. ``compiled``: it is the compiler's, not what the compiler is given.
    """

    name: str
    ending: str
    readable: bool = False
    compiled: bool = True


@dataclass(frozen=True)
class BackEnd:
    """One way to devices, or to a compiler for them.

    ``title`` is its name for people. Of the ways to one device the one of the highest ``rank`` is preferred. ``products``: what its
    targets make, first what its devices load. ``offline``: its compiler needs no device. ``usual`` is the architecture that it compiles
    for where none is named and no device is here.
    """

    name: str
    title: str
    rank: int
    products: tuple[Product, ...]
    offline: bool = False
    usual: str = ""

    def survey(self) -> Survey:
        """Look for devices; cheap, creates no context. From ``survey.py``."""
        survey: Survey = self._file("survey").survey()
        return survey

    def target(self, architecture: str, product: str = "") -> Target:
        """A compiler that needs no device, for one of ``products`` (default: the first). From ``compiler.py``.

        Raises DeviceNotFoundError where the compiler is missing or does not know the architecture, UsageError where it is a device's.
        """
        if not self.offline:
            raise UsageError(f"{self.title} compiles for devices that are here, not for {architecture!r}")
        target: Target = self._file("compiler").target(architecture, product or self.products[0].name)
        return target

    def datasheet(self, architecture: str) -> DeviceInfo | None:
        """A common device of an architecture, from its data sheet; None for one not listed. From ``datasheet.py``."""
        if not self.offline:
            return None
        known: DeviceInfo | None = self._file("datasheet").datasheet(architecture)
        return known

    def datasheets(self) -> tuple[str, ...]:
        """The architectures that ``datasheet`` knows."""
        return tuple(self._file("datasheet").ARCHITECTURES) if self.offline else ()

    def product(self, name: str) -> Product | None:
        """The product of that name."""
        return next((product for product in self.products if product.name == name), None)

    @property
    def assembly(self) -> str:
        """The product that is the compiler's instructions as text, which may be what devices load."""
        return next((product.name for product in self.products if product.readable and product.compiled), self.products[0].name)

    def _file(self, name: str) -> Any:
        return import_module(f"{__package__}.{self.name}.{name}")
