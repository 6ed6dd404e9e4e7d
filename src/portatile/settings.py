"""The only reader of environment variables and user directories."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from portatile.errors import UsageError


@dataclass(frozen=True)
class Settings:
    """What the environment says.

    ``PORTATILE_DEVICE`` selects the default device, ``PYOPENCL_CTX`` does if it is not set; ``PORTATILE_CACHE_DIR`` and
    ``PORTATILE_DATA_DIR`` move the binary cache and the result store, ``PORTATILE_CACHE_MAX_MB`` bounds the cache (default 512).
    ``PORTATILE_MEMORY_LIMIT`` bounds the device memory of routines on NumPy arrays; see ``memory_limit``.
    """

    device: str | None
    pyopencl_ctx: str | None
    cache_dir: Path
    cache_max_bytes: int
    data_dir: Path
    ocl_icd_vendors: str | None
    debug: bool

    @property
    def store_path(self) -> Path:
        """The result store's file."""
        return self.data_dir / "results.sqlite"


def load() -> Settings:
    """Read the environment now; nothing is remembered, so that tests and programs may change it."""
    env = os.environ
    megabytes = env.get("PORTATILE_CACHE_MAX_MB", "512")
    try:
        limit = int(float(megabytes) * 2**20)
    except ValueError:
        raise UsageError(f"PORTATILE_CACHE_MAX_MB={megabytes!r} is not a number of megabytes") from None
    device, pyopencl_ctx = selection()
    return Settings(
        device=device,
        pyopencl_ctx=pyopencl_ctx,
        cache_dir=Path(env.get("PORTATILE_CACHE_DIR") or platformdirs.user_cache_path("portatile")),
        cache_max_bytes=limit,
        data_dir=Path(env.get("PORTATILE_DATA_DIR") or platformdirs.user_data_path("portatile")),
        ocl_icd_vendors=env.get("OCL_ICD_VENDORS") or None,
        debug=debug(),
    )


def debug() -> bool:
    """Whether errors on the command line come with their traceback."""
    return bool(os.environ.get("PORTATILE_DEBUG"))


def selection() -> tuple[str | None, str | None]:
    """``device`` and ``pyopencl_ctx`` alone, which every call of a routine asks for: a microsecond, where ``load`` takes 30."""
    return os.environ.get("PORTATILE_DEVICE") or None, os.environ.get("PYOPENCL_CTX") or None


def memory_limit() -> int | None:
    """Bytes of device memory that a routine may take for NumPy arrays: ``500M``, ``1.5G`` or a number; None where nothing is said.

    Raises UsageError for what is no positive number of bytes.
    """
    text = os.environ.get("PORTATILE_MEMORY_LIMIT")
    if not text:
        return None
    factor = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}.get(text[-1].upper())
    try:
        limit = int(float(text if factor is None else text[:-1]) * (factor or 1))
    except (ValueError, OverflowError):
        limit = 0
    if limit < 1:
        raise UsageError(f"PORTATILE_MEMORY_LIMIT={text!r} is no number of bytes; write for example 500M or 1.5G")
    return limit
