"""Where the Python function of a basic block holds registers: in local variables, as bits or as the numbers that these mean.

The thread's own registers are read where a block first needs one, and written where others look: other blocks, and steps.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence


class Held:
    """The lines of a function, and which of its variables are valid. Registers that nobody else reads are never written back."""

    def __init__(self, places: dict[str, int]) -> None:
        self.lines: list[str] = []
        self.own: set[str] = set()
        """Registers that were written here before anything read them."""
        self.places = places
        self._bits: set[str] = set()
        self._numbers: dict[str, str] = {}
        self._seen: set[str] = set()
        self._stale: set[str] = set()  # newer here than among the thread's registers

    def bits(self, register: str) -> str:
        """The variable with a register's bit pattern."""
        name = f"v{self._place(register)}"
        self._seen.add(register)
        if register not in self._bits:
            kind = self._numbers.get(register)
            value = f"r[{register!r}]" if kind is None else f"expressions.bits_{kind}({self._number(register)})"
            self.lines.append(f"{name} = {value}")
            self._bits.add(register)
        return name

    def number(self, register: str, kind: str) -> str:
        """The variable with the number that a register's bits mean."""
        name = self._number(register)
        if self._numbers.get(register) != kind:
            self.lines.append(f"{name} = expressions.float_{kind}({self.bits(register)})")
            self._numbers[register] = kind
        return name

    def is_number(self, register: str) -> str | None:
        """The kind of a register that is held as a number alone."""
        return None if register in self._bits else self._numbers.get(register)

    def set_bits(self, register: str, text: str) -> None:
        """A register becomes an expression's bit pattern."""
        self.lines.append(f"v{self._place(register)} = {text}")
        self._new_bits(register)

    def set_number(self, register: str, kind: str, text: str) -> None:
        """A register becomes an expression's number, which has the precision of ``kind``."""
        self.lines.append(f"{self._number(register)} = {text}")
        self._bits.discard(register)
        self._numbers[register] = kind
        self._written(register)

    def set_all(self, registers: Sequence[str], text: str) -> None:
        """Registers, or ``_`` for none, become the bit patterns that an expression gives."""
        self.lines.append("".join(f"v{self._place(name)}, " for name in registers) + f"= {text}")
        for register in registers:
            self._new_bits(register)

    def write_back(self, registers: Iterable[str]) -> None:
        """The thread's registers become what they are here."""
        for register in sorted(self._stale.intersection(registers)):
            self.lines.append(f"r[{register!r}] = {self.bits(register)}")
            self._stale.discard(register)

    def changed(self) -> set[str]:
        """Registers that are newer here than among the thread's."""
        return set(self._stale)

    def forget(self, registers: Iterable[str]) -> None:
        """Others may have written these registers, which had been written back."""
        for register in registers:
            self._seen.add(register)
            self._bits.discard(register)
            self._numbers.pop(register, None)

    def _new_bits(self, register: str) -> None:
        self._numbers.pop(register, None)
        self._bits.add(register)
        self._written(register)

    def _written(self, register: str) -> None:
        if register not in self._seen:
            self.own.add(register)
            self._seen.add(register)
        self._stale.add(register)

    def _place(self, register: str) -> int:
        return self.places.setdefault(register, len(self.places))

    def _number(self, register: str) -> str:
        return f"x{self._place(register)}"
