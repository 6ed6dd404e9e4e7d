"""Rewrites NVRTC's messages about a translated text in terms of the user's text: its lines, OpenCL C's names, nothing of the prelude."""

from __future__ import annotations

import re
from collections.abc import Iterator

from portatile.dialect.opencl_to_cuda import PRELUDE

_DIAGNOSTIC = re.compile(r"^(?P<file>\S[^\n]*)\((?P<line>\d+)\): (?P<kind>error|warning|note|remark|catastrophic error)\b")
_CAUSE = re.compile(r" at line (\d+)(?: of (.+))?$", re.MULTILINE)
_VECTOR = re.compile(r"\bvec<(\w+), (\d+)>")
_CONSTRUCTOR = re.compile(r"\bvec<T, (\d+)>::vec \[with T=(\w+)\]")
_DECLARED = re.compile(rf" \(declared at line \d+ of {re.escape(PRELUDE)}[^)\s]*\)")
_NAMESPACE = re.compile(r"\boclt?::(?:prog::)?")


def readable(log: str) -> str:
    """The log with every error at a line of the user's text: an error inside the prelude is reported at the line that led there.

    If one line caused several errors inside the prelude, only the first is kept. A log without errors is returned unchanged.
    """
    lines, shown = [], set()
    for group in _groups(log):
        head = _DIAGNOSTIC.match(group[0])
        if head is None or not head["file"].startswith(PRELUDE):
            lines += [part for part in group if not part.startswith(PRELUDE)]
            continue
        causes = [(file, line) for line, file in _CAUSE.findall("\n".join(group)) if file and not file.startswith(PRELUDE)]
        if "error" in head["kind"] and not causes:
            lines += group
        elif causes and "error" in head["kind"] and causes[-1] not in shown:
            shown.add(causes[-1])
            lines.append(f"{causes[-1][0]}({causes[-1][1]}){group[0].splitlines()[0][head.end('line') + 1 :]}\n")
    spelt = _NAMESPACE.sub("", "\n".join(lines))
    spelt = _DECLARED.sub("", _CONSTRUCTOR.sub(r"\2\1", spelt))
    return _VECTOR.sub(r"\1\2", spelt) if "error" in spelt else log


def _groups(log: str) -> Iterator[list[str]]:
    """Each error or warning with its notes; lines before the first one, and totals at the end, on their own."""
    group: list[str] = []
    for line in log.splitlines():
        match = _DIAGNOSTIC.match(line)
        if match and match["kind"] == "note" and group:
            group.append(line)
        elif match or re.match(r"\d+ errors? (?:detected|limit)", line) or not group:
            if group:
                yield group
            group = [line]
        else:
            group[-1] += f"\n{line}"
    if group:
        yield group
