"""NumPy's masked arrays: portatile has no masks, so elements that are masked would silently count."""

from __future__ import annotations

import sys
from typing import Any

from portatile.errors import ArgumentError


def refuse_masks(array: Any, name: str) -> None:
    """Raise ArgumentError for a masked array with masked elements: the mask would be ignored."""
    masks = sys.modules.get("numpy.ma")  # not imported: no array can be masked, and the import is slow
    if masks is not None and isinstance(array, masks.MaskedArray) and masks.is_masked(array):
        example = f", for example with {name}.filled(0)" if name.isidentifier() else " with its method filled"
        raise ArgumentError(f"{name} is a masked array, whose mask would be lost; fill it{example}")
