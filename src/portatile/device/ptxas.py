"""Registers, spills, local memory and stack of each kernel, from what NVIDIA's assembler reports with ``-v``."""

from __future__ import annotations

import re

from portatile.records import Resources

_ENTRY = re.compile(r"Compiling entry function '([\w$]+)'")
_FUNCTION = re.compile(r"Function properties for '?([\w$]+)'?")
_STACK = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_REGISTERS = re.compile(r"Used (\d+) registers")
_SHARED = re.compile(r"(\d+)(?:\+\d+)? bytes smem")


def parse(log: str) -> dict[str, Resources]:
    """The resources of every kernel that the log names, by symbol. A kernel without ``smem`` uses no static local memory."""
    facts: dict[str, dict[str, int]] = {}
    entry = function = ""
    for line in log.splitlines():
        if match := _ENTRY.search(line):
            entry = match.group(1)
            facts[entry] = {}
        elif match := _FUNCTION.search(line):
            function = match.group(1)
        elif (match := _STACK.search(line)) and function in facts:
            stack, stores, loads = map(int, match.groups())
            facts[function] |= {"stack": stack, "spill_stores": stores, "spill_loads": loads}
        elif (match := _REGISTERS.search(line)) and entry in facts:
            shared = _SHARED.search(line)
            facts[entry] |= {"registers": int(match.group(1)), "local_memory": int(shared.group(1)) if shared else 0}
    return {name: Resources(**values) for name, values in facts.items()}
