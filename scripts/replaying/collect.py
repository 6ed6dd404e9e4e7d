"""Collect in one source tree: draw a corpus there, or write down the plans and kernel texts of one drawn elsewhere.

PYTHONPATH=TREE/src python scripts/replaying/collect.py draw OUT SEED COUNT CONFIGS TREE PART PARTS
PYTHONPATH=TREE/src python scripts/replaying/collect.py plans OUT CORPUS TRANSLATIONS PART PARTS
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from replaying import corpus, devices, texts, trees

_DEPTH = 6  # of problems that call problems
_OPENING = "namespace prog {"  # what a translation's own text begins with, behind the headers that it needs


class Collector:
    """Plans as lines of text, and the kernel texts that they name by their hashes."""

    def __init__(self) -> None:
        self.texts: dict[str, texts.Text] = {}
        self.cuda: set[str] = set()  # lines of the headers of translations
        self._defaults: dict[str, list[str]] = {}
        self._devices: dict[str, Any] = {}

    def case(self, case: corpus.Case, translate: bool) -> dict[str, Any]:
        """What this tree makes of one problem in one configuration."""
        facts = case.get("facts") or devices.described(case["device"])
        record = {**case, "lines": [], "error": "", "illegal": ""}
        try:
            device = self._device(facts)
            problem = trees.problem(case["problem"])
            workload = trees.workload(case["workload"])
            if case["config"] is None:
                config = workload.default(problem, device)
            else:
                config = trees.adopted(workload, problem, case["config"], device)
                record["illegal"] = workload.space(problem, device).violated(config) or ""
            if not record["illegal"]:
                plan = workload.plan(problem, config, device)
                record["lines"] = [*self._plan(plan, device, translate and device.backend == "cuda")]
        except Exception as error:  # is data: the other tree may say the same
            record["error"] = f"{type(error).__name__}: {error}"
        return record

    def _device(self, facts: dict[str, Any]) -> Any:
        key = json.dumps(facts)
        if key not in self._devices:
            self._devices[key] = trees.device_info(facts)
        return self._devices[key]

    def _plan(self, plan: Any, device: Any, translate: bool, depth: int = 0) -> Iterator[str]:
        for temporary in plan.temporaries:
            yield f"temporary {json.dumps(trees.plain(temporary))}"
        for step in plan.steps:
            if hasattr(step, "problem"):
                yield f"call {step.problem.workload} {json.dumps([trees.plain(step.operands), trees.plain(step.scalars)])}"
                yield from (f"  {line}" for line in self._called(step.problem, device, translate, depth))
            else:
                yield f"launch {step.kernel} {[*step.global_size]} by {[*step.local_size]}"
                yield f"  text {self._text(step.source)}"
                if translate:
                    yield f"  cuda {self._translated(step.source)}"
                yield from (f"  argument {json.dumps(trees.plain(argument))}" for argument in step.args)

    def _called(self, problem: Any, device: Any, translate: bool, depth: int) -> list[str]:
        """The plan of a called problem in its default configuration, made once for each device."""
        key = f"{device.id} {device.name} {device.platform} {device.architecture} {translate} {problem.key}"
        if key not in self._defaults:
            if depth > _DEPTH:
                raise RecursionError("problems that call each other without end")
            workload = trees.workload(problem.workload)
            plan = workload.plan(problem, workload.default(problem, device), device)
            self._defaults[key] = [*self._plan(plan, device, translate, depth + 1)]
        return self._defaults[key]

    def _text(self, source: Any) -> str:
        text = texts.of_source(source)
        name = texts.digest(text)
        self.texts[name] = text
        return name

    def _translated(self, source: Any) -> str:
        run = trees.first("translate", "portatile.dialect")
        try:
            translation = run(source.text, file=source.file, defines=dict(source.defines), options=source.options)
            head, opening, body = texts.statements(translation.text).partition(_OPENING)
            self.cuda.update(head.splitlines())
            text: texts.Text = {
                "text": opening + body,
                "defines": [],
                "options": list(translation.options),
                "translated": True,
            }
        except Exception as error:
            text = {"text": f"{type(error).__name__}: {error}", "defines": [], "options": [], "translated": True}
        name = texts.digest(text)
        self.texts[name] = text
        return name


def prelude() -> str:
    """What OpenCL's compilers are given before each text."""
    return texts.code(trees.first("PRELUDE_OPENCL", "portatile.dialect"))


def plans(cases: Iterable[tuple[int, corpus.Case]], every: int) -> dict[str, Any]:
    """Cases with their numbers in the corpus, one in ``every`` also as CUDA C++, the texts that they name, and what stands before these."""
    collector = Collector()
    records = [collector.case(case, every > 0 and number % every == 0) for number, case in cases]
    return {"cases": records, "texts": collector.texts, "prelude": prelude(), "cuda": sorted(collector.cuda)}


def main(command: str, out: str, *rest: str) -> None:
    """Write what the command collects, of one of so many parts of the corpus, as JSON."""
    *files, part, parts = rest
    mine = slice(int(part), None, int(parts))
    if command == "draw":
        seed, count, configs, tree = files
        drawn = corpus.draw(int(seed), int(count), int(configs), mine)
        Path(out).write_text(json.dumps([*drawn, *list(corpus.recorded(Path(tree)))[mine]]))
        return
    source, every = files
    Path(out).write_text(json.dumps(plans(list(enumerate(json.loads(Path(source).read_text())))[mine], int(every))))


if __name__ == "__main__":
    main(*sys.argv[1:])
