"""The scripts of pages, and their hashes for a content security policy that allows only these."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from pathlib import Path


@cache
def sorting() -> str:
    """The script that sorts tables of the class ``sortable`` by their headings."""
    return Path(__file__).with_name("sorting.js").read_text(encoding="utf-8")


def digest(script: str) -> str:
    """The SHA-256 of a script that a page holds after a line break, as a content security policy names it.

    Examples:
        >>> digest("")
        'AbpHGcgLb+kRsJGnwFEktk7uzpZOCcBY74+YBdrKVGs='
    """
    return base64.b64encode(hashlib.sha256(f"\n{script}".encode()).digest()).decode()
