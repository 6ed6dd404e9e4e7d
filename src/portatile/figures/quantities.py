"""Quantities as text for people: three digits, SI units, no-break spaces."""

from __future__ import annotations

NBSP = "\u00a0"
NARROW = "\u202f"
_WHOLE, _LARGE = 1000, 1e7  # between them a value is written as a whole number


def digits(value: float) -> str:
    """Three significant digits, not in exponent notation between a thousandth and a million."""
    if value == 0 or not 1e-3 <= abs(value) < 1e6:
        return f"{value:.3g}"
    if abs(value) < 1:
        return f"{value:#.3g}"
    integer_digits = len(str(int(abs(float(f"{value:.3g}")))))
    return f"{value:.{max(3 - integer_digits, 0)}f}"


def duration(seconds: float) -> str:
    """``16.1 µs``."""
    for limit, scale, unit in ((1e-6, 1e9, "ns"), (1e-3, 1e6, "µs"), (1.0, 1e3, "ms")):
        if seconds < limit:
            return f"{digits(seconds * scale)}{NARROW}{unit}"
    return f"{digits(seconds)}{NARROW}s"


def tick(seconds: float) -> str:
    """``duration`` without the zeros that end it."""
    number, _, unit = duration(seconds).partition(NARROW)
    return f"{number.rstrip('0').rstrip('.') if '.' in number else number}{NARROW}{unit}"


def percent(share: float) -> str:
    """``24 %``; below ten with one decimal, but never ``-0.0 %``."""
    figure = round(100 * share, 1) + 0.0  # turns a negative zero into zero
    return f"{figure:.0f}{NARROW}%" if abs(figure) >= 9.95 or figure == 0 else f"{figure:.1f}{NARROW}%"


def times(factor: float) -> str:
    """``3.21 ×``."""
    return f"{digits(factor)}{NARROW}×"


def count(number: int, noun: str) -> str:
    """``1 trial``, ``3 trials``."""
    return f"{number:,}{NBSP}{noun}{'' if number == 1 else 's'}".replace(",", NARROW)


def written(value: float, unit: str = "") -> str:
    """A value of an axis or a bar: ``s`` as a duration, ``%`` as a share, anything else as three digits, or whole, without a unit."""
    if unit == "s":
        return "0" if value == 0 else tick(value)
    if unit == "%":
        return percent(value).replace(f".0{NARROW}", NARROW)
    return f"{value:.0f}" if _WHOLE <= abs(value) < _LARGE else f"{value:.3g}"
