"""All calls of the workload's code, in the parent process: operands and references, plans, bounds, the model's rejections, certificates."""

from __future__ import annotations

import re
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from portatile import cache, ceilings, flat_plans, model, select, template
from portatile.errors import CompileError, LaunchError
from portatile.formatting import spelled
from portatile.model import Demand, Peaks
from portatile.records import Config, DeviceInfo, Plan, Problem, Source
from portatile.space import ParameterSpace
from portatile.store import known_results
from portatile.trials import ARRAYS, FLOPS, TRAFFIC, Certificate, Check, Trial, now
from portatile.tuning.protocol import Case, VariantPart, complex_as_pairs, strip_sources
from portatile.tuning.search import host_memory
from portatile.tuning.search.worker_forks import WorkerForks
from portatile.tuning.search.worker_process import Variant
from portatile.tuning.shared_arrays import SharedArrays
from portatile.workload import Workload, packed_layout

IMPOSSIBLE = "faster than the device can be"
"""The beginning of the message of a trial that is faster than the device's ceilings allow."""

_MARGIN = 1.05  # the factor by which a measurement may lie above a measured ceiling
_MATRIX_DOUBLE = 2.0  # how much faster than plain instructions a GPU's matrix units are in float64, at most
_MATRIX = re.compile(r"[wg]?mma[_.:]|wgmma|wmma|tcgen05|nvcuda|cutlass|cooperative_matrix|dot_product_matrix", re.IGNORECASE)
_BRIEF = 2.0  # a further factor for ceilings that were measured only briefly, when the device was first used
_CPU_MARGIN = 2.0  # instead of _MARGIN: other programs may have run on the CPU while its ceilings were measured
_DISTURBED = 8.0  # a further factor where it is known that they did


def cases(workload: Workload, timed: Problem, seed: int, arena: SharedArrays) -> tuple[list[Problem], tuple[Case, ...]]:
    """The problems that variants are checked on, the timed one last, with operands and reference in the arena."""
    rng = np.random.default_rng([seed, 1])
    problems = [*workload.awkward(timed), timed]
    roles = {operand.name: operand.role for operand in workload.operands_of(timed.options)}
    forms = {operand.name: operand.form for operand in workload.operands_of(timed.options) if operand.form is not None}
    listed = []
    for problem in problems:
        inputs = (workload.usual_inputs if problem is timed else workload.inputs)(problem, rng)
        sample = rng if problem is timed else None
        expected = {name: arena.put_expected(values) for name, values in workload.reference(problem, inputs, sample).items()}
        operands = {name: arena.put(array) for name, array in inputs.operands.items()}
        of_operands = {name: roles.get(name, "inout") for name in operands}
        label = spelled(problem.sizes) or " ".join(f"{name}[{array.size}]" for name, array in inputs.operands.items())
        listed.append(Case(label, operands, of_operands, complex_as_pairs(inputs.scalars), expected, forms))
    return problems, tuple(listed)


class PreparedSearch:
    """The cases of a problem, all known results, and what forks compile workers: once for all searches on it that run at the same time.

    A context manager; safe between threads. ``results``: see ``known_results``. Raises ArgumentError if this machine's memory does not
    hold the operands.
    """

    def __init__(self, workload: Workload, timed: Problem, seed: int) -> None:
        host_memory.check(workload, timed)
        self.arena = SharedArrays()
        self.results, self.forks = known_results(), WorkerForks()
        self._asked = workload, timed, seed
        self._making = threading.Lock()
        self._made: tuple[list[Problem], tuple[Case, ...]] | None = None

    def problems(self) -> list[Problem]:
        """The problems that variants are checked on, the timed one last."""
        workload, timed, _ = self._asked
        return [*workload.awkward(timed), timed]

    def cases(self) -> tuple[Case, ...]:
        """The cases, made at the first call; other callers wait for it."""
        with self._making:
            if self._made is None:
                self._made = cases(*self._asked, self.arena)
            return self._made[1]

    def __enter__(self) -> PreparedSearch:
        return self

    def __exit__(self, *exc: object) -> None:
        self.forks.end()
        self.arena.close()


@contextmanager
def binaries() -> Iterator[cache.Cache]:
    """The user's binary cache; where it cannot be written, one that lasts as long as the run: workers pass binaries through it."""
    chosen = cache.default()
    if chosen.keeps():
        yield chosen
        return
    with tempfile.TemporaryDirectory(prefix="portatile-binaries-") as folder:
        yield cache.Cache(Path(folder), chosen.limit)


class Planner:
    """Calls the workload's own code: plans, bounds and legality. ``results``: see ``known_results``, which is asked without them."""

    def __init__(
        self,
        workload: Workload,
        problems: Sequence[Problem],
        cases: Sequence[Case],
        info: DeviceInfo,
        results: Callable[[str], Sequence[Trial]] | None = None,
    ) -> None:
        self.workload, self.problems, self.info = workload, problems, info
        self.compare(cases)
        self.results = results or known_results()
        timed = problems[-1]
        self.work = Demand(workload.flops(timed), workload.traffic(timed))
        self.peaks = Peaks() if workload.name in ceilings.MEASURING else _peaks(info, timed.dtype)
        self._matrix, self._plain = self.peaks, self.peaks
        if self.peaks.flops:
            factor = _MATRIX_DOUBLE if timed.dtype == "float64" and info.kind != "cpu" else None
            self._matrix, self._plain = _peaks(info, timed.dtype, factor), _peaks(info, timed.dtype, 1.0)
        self._near = _near(info, timed.dtype)
        self._spaces: dict[str, ParameterSpace] = {}
        self._resolve = select.resolver(info, self.results)

    def compare(self, cases: Sequence[Case]) -> None:
        """Set the cases, some of which may have no reference; to be called before the first ``certificate``."""
        self._compared = [bool(case.expected) for case in cases]

    def own_work(self) -> dict[str, float]:
        """The work of a run, which trials of a user's own kernel store: operations, least traffic or, without both, the arrays' bytes."""
        known = {FLOPS: self.work.flops, TRAFFIC: self.work.traffic}
        if not any(known.values()):
            rate, unit = self.workload.speed(self.problems[-1], 1.0)
            known[ARRAYS] = rate * 1e9 if unit == "GB/s" else 0.0
        return {name: amount for name, amount in known.items() if amount > 0}

    def plan(self, problem: Problem, config: Config) -> Plan:
        """The flat plan of one problem."""
        return flat_plans.flatten(self.workload.plan(problem, config, self.info), self._resolve)

    def default_plan(self) -> Plan:
        """The default's plan for the timed problem; without steps where the workload refuses to make it (its trial then says why)."""
        timed = self.problems[-1]
        try:
            return self.plan(timed, self.workload.default(timed, self.info))
        except (CompileError, LaunchError):
            return Plan(())

    def variant(self, number: int, config: Config, timed: Plan) -> Variant:
        """A configuration's plans for every case for which it is legal; ``timed`` is the last case's plan, and its texts come first."""
        sources: list[Source] = []
        last = len(self.problems) - 1
        timed_part = VariantPart(last, strip_sources(timed, sources), self.workload.bound(self.problems[last], config))
        parts = []
        for case, problem in enumerate(self.problems[:-1]):
            if config in self._space(problem):
                parts.append(VariantPart(case, strip_sources(self.plan(problem, config), sources), self.workload.bound(problem, config)))
        return Variant(number, tuple(sources), (*parts, timed_part))

    def planned(self, config: Config) -> tuple[Plan, Variant]:
        """The flat plan of the timed problem, and the variant, which has no number yet."""
        timed = self.plan(self.problems[-1], config)
        return timed, self.variant(0, config, timed)

    def rejects(self, plan: Plan, limit: float) -> str | None:
        """Why a plan need not be compiled, or None: it cannot run, or it certainly takes more than ``limit`` seconds."""
        reason = model.impossible(plan, self.info)
        if reason is not None:
            return reason
        least = model.estimate(plan, self.work, self.info, self.peaks)
        return None if least <= limit else f"it takes {least:.3g} s or more, and {limit:.3g} s would be hopeless"

    def ranked(self, configs: Sequence[Config]) -> list[Config]:
        """Configurations by the model's estimate, the fastest first; none where the model does not distinguish them."""
        timed, resolve = self.problems[-1], select.resolver(self.info, self.results)  # not self._resolve: these plans have no texts
        scores: list[tuple[float, int, Config]] = []
        for config in configs:
            waste, loads = self.workload.waste(timed, config, self.info), self.workload.loads(timed, config)
            work = Demand(max(self.work.flops, self.work.traffic), self.work.traffic, loads, waste)
            try:
                with template.without_texts():
                    plan = flat_plans.flatten(self.workload.plan(timed, config, self.info), resolve)
            except (CompileError, LaunchError):
                continue
            if model.impossible(plan, self.info) is None:
                scores.append((model.likely(plan, work, self.info, self._near), len(scores), config))
        return [config for _, _, config in sorted(scores, key=lambda row: row[:2])] if len({row[0] for row in scores}) > 1 else []

    def too_fast(self, seconds: float, sources: Sequence[Source] = ()) -> str | None:
        """Why a run of these texts cannot have taken so little time, or None. Without texts it may have used matrix units."""
        if not seconds > 0:
            return f"the clock says that it took {seconds:.3g} s"
        matrix = not sources or any(map(uses_matrix_units, sources))
        least = model.least_seconds(self.work, self._matrix if matrix else self._plain)
        if seconds >= least:
            return None
        doubt = "it does not do all its work, or the ceilings are wrong: `portatile bench peak` measures them again"
        return f"{IMPOSSIBLE}: {seconds:.3g} s, where its measured ceilings allow {least:.3g} s or more; {doubt}"

    def certificate(self, variant: Variant, errors: Sequence[float], source: str, partial: bool = False) -> Certificate:
        """The certificate of a valid variant; it lists no checks where there is no reference."""
        checks = []
        for part, error in zip(variant.parts, errors, strict=True):
            if not self._compared[part.case]:
                continue
            problem = self.problems[part.case]
            shapes = self.workload.shapes(problem)
            unusual = {name: layout for name, layout in problem.layout.items() if layout != packed_layout(shapes[name])}
            checks.append(Check(problem.sizes, error, part.bound, unusual))
        return Certificate(self.info.driver, self.info.compiler, source, tuple(checks), time=now(), partial=partial)

    def _space(self, problem: Problem) -> ParameterSpace:
        if problem.key not in self._spaces:
            self._spaces[problem.key] = self.workload.space(problem, self.info)
        return self._spaces[problem.key]


def _near(info: DeviceInfo, dtype: str) -> float:
    """Floating-point operations in the time of one byte from local memory: measured, else a usual value."""
    known = ceilings.load(info)
    flops, local = (known.flops(dtype), known.local_memory) if known is not None else (None, None)
    return flops / (1e9 * local) if flops and local else model.NEAR.get(info.kind, model.NEAR["gpu"])


def uses_matrix_units(source: Source) -> bool:
    """Whether a text has a matrix instruction, or may have one through an include, a macro or one of NVIDIA's names."""
    return _MATRIX.search(source.text) is not None or any(_MATRIX.search(f"{name} {value}") for name, value in source.defines)


def _peaks(info: DeviceInfo, dtype: str, matrix: float | None = None) -> Peaks:
    """The most that the device can reach by the ceilings measured on it; 0 if none were.

    ``matrix``: how many times as fast as plain instructions its matrix units may be; None for what is certain whatever a kernel uses.
    """
    known = ceilings.load(info)
    if known is None:
        return Peaks()
    margin = (_CPU_MARGIN if info.kind == "cpu" else _MARGIN) * (_BRIEF if known.brief else 1.0) * (_DISTURBED if known.disturbed else 1.0)
    most = 1.0 if info.kind == "cpu" else ceilings.MATRIX_UNITS
    return Peaks(margin * (most if matrix is None else matrix) * (known.flops(dtype) or 0.0), margin * 1e9 * (known.bandwidth or 0.0))
