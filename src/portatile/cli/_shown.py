"""Text from files and stores for the terminal, with control characters spelled out, because a terminal would obey them."""

from __future__ import annotations

_CONTROLS = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160)) if chr(code) not in "\n\t"}


def shown(text: str) -> str:
    """Text that comes from a file, with what a terminal would obey spelled out: escape sequences, carriage returns, bells."""
    return text.translate(_CONTROLS)
