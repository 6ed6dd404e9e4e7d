"""Compare what two trees make of one corpus; every difference is named, with its reason where one is known."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import Any

from replaying import texts
from replaying.devices import DEVICES

Collected = dict[str, Any]
"""``cases``, ``texts``, ``prelude`` and ``cuda`` of one tree, as ``collect`` writes them; the last are the different lines, in the order of
the alphabet, that stand before the translations, each of which has the headers that it needs."""
_PARALLEL = 200  # texts to preprocess, from which on more than one process does it


@dataclass(frozen=True)
class Reason:
    """Accepts differences of the cases that ``case`` matches, where ``lines`` is found in every line that was removed or added."""

    case: str
    reason: str
    lines: str = ""

    def accepts(self, difference: Difference) -> bool:
        """Whether this explains all of a difference."""
        if not fnmatchcase(difference.case, self.case):
            return False
        return not self.lines or all(re.search(self.lines, line[1:]) for line in changed(difference.diff))


@dataclass(frozen=True)
class Difference:
    """A case of which the trees make different plans or texts."""

    case: str
    group: str
    before: tuple[str, ...]
    after: tuple[str, ...]
    texts: Mapping[str, str] = field(repr=False)

    @cached_property
    def diff(self) -> tuple[str, ...]:
        """The plans' difference, and that of each pair of texts that stand in one place."""
        lines = [*difflib.unified_diff(self.before, self.after, "plan before", "plan after", "", "", 0, "")]
        named = [(_text(before), _text(other)) for before, other in zip(self.before, self.after, strict=False)]
        for before, other in dict.fromkeys(pair for pair in named if all(pair) and pair[0] != pair[1]):
            old, new = self.texts[before].splitlines(), self.texts[other].splitlines()
            lines += difflib.unified_diff(old, new, f"text {before}", f"text {other}", "", "", 2, "")
        return tuple(lines)


@dataclass(frozen=True)
class Report:
    """How many problems and cases there are, by workload and device, and which are different: with a reason or without."""

    problems: int
    cases: Counter[str]
    explained: list[tuple[Difference, str]]
    unexplained: list[Difference]

    def plain(self, show: int) -> dict[str, Any]:
        """As JSON has it, with the first unexplained differences in full."""
        apart = Counter(difference.group for difference in self.different)
        groups = {name: {"equal": count - apart[name], "different": apart[name]} for name, count in sorted(self.cases.items())}
        named = [{"case": difference.case, "reason": reason} for difference, reason in self.explained]
        open_ = [{"case": d.case, "diff": d.diff if place < show else ()} for place, d in enumerate(self.unexplained)]
        return {"problems": self.problems, "equal": self.equal, "groups": groups, "explained": named, "unexplained": open_}

    @property
    def different(self) -> list[Difference]:
        """All differences."""
        return [*(difference for difference, _ in self.explained), *self.unexplained]

    @property
    def equal(self) -> int:
        """How many cases are equal."""
        return self.cases.total() - len(self.different)


def reasons(path: Path) -> list[Reason]:
    """The accepted differences, from TOML."""
    return [Reason(**entry) for entry in tomllib.loads(path.read_text()).get("accepted", [])]


def changed(diff: Iterable[str]) -> list[str]:
    """The lines of a unified diff that were removed or added."""
    return [line for line in diff if line[:1] in ("+", "-") and not line.startswith(("+++", "---"))]


def compare(before: Collected, after: Collected, accepted: Iterable[Reason], jobs: int = 1) -> Report:
    """What is equal and what is not, of two collections of one corpus.

    Texts whose code is the same under the same definitions are the same; of the others what the preprocessor leaves is compared.
    """
    pairs = list(zip(before["cases"], after["cases"], strict=True))
    suspects = [(old, new) for old, new in pairs if _judged(old) != _judged(new)]
    final = _final([case for pair in suspects for case in pair], {**before["texts"], **after["texts"]}, jobs)
    hashes = {key: texts.digest(text) for key, text in final.items()}
    known = {hashes[key]: text for key, text in final.items()}
    differences = []
    for old, new in suspects:
        ours, theirs = _lines(old, hashes), _lines(new, hashes)
        if ours != theirs:
            differences.append(Difference(f"{old['id']}/{old['kind']}", _group(old), ours, theirs, known))
    if before["prelude"] != after["prelude"]:
        differences.append(Difference("prelude", "prelude opencl", *(tuple(tree["prelude"].splitlines()) for tree in (before, after)), {}))
    if before["cuda"] != after["cuda"]:
        differences.append(Difference("prelude/cuda", "prelude cuda", tuple(before["cuda"]), tuple(after["cuda"]), {}))
    accepted, explained, open_ = list(accepted), [], []
    for difference in differences:
        reason = next((entry.reason for entry in accepted if entry.accepts(difference)), None)
        if reason is None:
            open_.append(difference)
        else:
            explained.append((difference, reason))
    cases = Counter([_group(old) for old, _ in pairs] + ["prelude opencl", "prelude cuda"])
    return Report(len({old["id"] for old, _ in pairs}), cases, explained, open_)


def _group(case: Mapping[str, Any]) -> str:
    return f"{case['workload']} {case['device']}"


def _judged(case: Mapping[str, Any]) -> tuple[object, ...]:
    return case["lines"], case["error"], case["illegal"] != ""


def _text(line: str) -> str:
    """The hash of the text that a line of a plan names, or nothing."""
    word, _, name = line.strip().partition(" ")
    return name if word in ("text", "cuda") else ""


def _backend(case: Mapping[str, Any]) -> str:
    return str((case.get("facts") or DEVICES[case["device"]])["backend"])


def _final(cases: Iterable[Mapping[str, Any]], known: Mapping[str, texts.Text], jobs: int) -> dict[tuple[str, str], str]:
    """Of each text that the cases name, for each back end, what the preprocessor leaves."""
    pairs = [*dict.fromkeys((name, _backend(case)) for case in cases for name in _names(case))]
    arguments = [known[name] for name, _ in pairs], [backend for _, backend in pairs]
    if jobs < 2 or len(pairs) < _PARALLEL:
        return dict(zip(pairs, map(_preprocess, *arguments), strict=True))
    with ProcessPoolExecutor(jobs) as pool:
        return dict(zip(pairs, pool.map(_preprocess, *arguments, chunksize=20), strict=True))


def _names(case: Mapping[str, Any]) -> Iterator[str]:
    return filter(None, map(_text, case["lines"]))


def _preprocess(text: texts.Text, backend: str) -> str:
    return str(text["text"]) if text.get("translated") else texts.preprocessed(text, backend)


def _lines(case: Mapping[str, Any], hashes: Mapping[tuple[str, str], str]) -> tuple[str, ...]:
    """The plan's lines with the hashes of preprocessed texts; or why there is no plan."""
    if case["error"]:
        return (f"error {case['error']}",)
    if case["illegal"]:
        return ("not legal",)
    backend = _backend(case)
    return tuple(line.replace(name, hashes[name, backend]) if (name := _text(line)) else line for line in case["lines"])
