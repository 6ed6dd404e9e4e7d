"""The public functions other than the routines: tune a workload, and explain why a configuration was chosen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Literal, overload

from portatile import device as device_module
from portatile import settings, workloads
from portatile.arguments import checks
from portatile.arguments.checks import Precision
from portatile.device import Selector
from portatile.errors import ArgumentError
from portatile.kernel import Kernel, TunedKernel
from portatile.measure import first_ceilings
from portatile.records import Call, Problem
from portatile.runtime import perform
from portatile.runtime.host import host_blas
from portatile.runtime.one_device.engine import Engine
from portatile.runtime.several_devices import batches, several, splits
from portatile.runtime.several_devices.splits import Split
from portatile.select import Choice
from portatile.store import ResultStore
from portatile.trials import Budget
from portatile.tuning.search import foreign_starts, many_devices, tuner, watching
from portatile.tuning.search.objective import Objective
from portatile.tuning.search.tuner import Progress, TuningResult
from portatile.workloads import precisions


@overload
def tune(
    workload: Kernel,
    *,
    device: str | None = None,
    budget: str | float = "60s",
    strategy: str = "auto",
    seed: int = 0,
    objective: Objective = "time",
    listen: Callable[[Progress], None] | None = None,
) -> TunedKernel: ...


@overload
def tune(  # type: ignore[overload-overlap]  # to the type checker, "all" is a device's name, too
    workload: str,
    *,
    dtype: str = "float32",
    device: Literal["all"] | list[str] | tuple[str, ...],
    precision: Precision | None = None,
    budget: str | float = "60s",
    strategy: str = "auto",
    seed: int = 0,
    objective: Objective = "time",
    listen: Callable[[Progress], None] | None = None,
    **sizes: int | str | bool,
) -> list[TuningResult]: ...


@overload
def tune(
    workload: str,
    *,
    dtype: str = "float32",
    device: str | None = None,
    precision: Precision | None = None,
    budget: str | float = "60s",
    strategy: str = "auto",
    seed: int = 0,
    objective: Objective = "time",
    listen: Callable[[Progress], None] | None = None,
    **sizes: int | str | bool,
) -> TuningResult: ...


def tune(
    workload: str | Kernel,
    *,
    dtype: str = "float32",
    device: Selector | None = None,
    precision: Precision | None = None,
    budget: str | float = "60s",
    strategy: str = "auto",
    seed: int = 0,
    objective: Objective = "time",
    listen: Callable[[Progress], None] | None = None,
    **sizes: int | str | bool,
) -> TuningResult | list[TuningResult]:
    """Search for the fastest configuration of a workload on a device; from then on the routines use it.

    ``workload`` is a name (``"gemm"``), or a ``Kernel``, whose own method ``tune`` is then called. ``sizes`` are sizes and options by name:
    ``m=512, n=512, k=512, trans_a="T"``. ``dtype`` is the dtype of the operands. ``precision`` is as for ``matmul``.

    ``budget`` is ``"30s"``, ``"200"`` or ``200`` evaluations, ``"60s,200"`` for whichever ends first, or a float of seconds. ``objective``
    is what to minimise: ``"time"``, ``"energy"`` (joules per run), or a function of a valid trial, which has ``median`` (seconds),
    ``config`` and ``conditions``. The routines always use the fastest configuration. ``strategy`` names a search strategy; ``seed`` makes
    its random choices repeatable. ``listen`` is called after every trial, for example ``print``. Without it, notebooks and terminals show
    one line of progress.

    With a list of devices, or ``"all"``, each of them is tuned with the whole budget: GPUs at the same time, then processors one by one.
    The result is a list, without the devices that failed; each failure is warned of.

    Every variant is checked against a reference before it is timed, and every trial is stored. Before the first search on a device its
    ceilings are measured for a few seconds.

    Raises NoValidVariantError when every variant failed, UsageError for ``"energy"`` if the device does not report its power,
    UnknownNameError for an unknown name, ArgumentError for invalid sizes or options, DeviceNotFoundError for an unknown device.

    Examples:
        >>> import portatile
        >>> result = portatile.tune("matmul", m=32, n=32, k=32, budget="3")
        >>> result.best.status
        'ok'
    """
    if isinstance(workload, Kernel):
        _check_kernel(sizes, precision, device)
        assert device is None or isinstance(device, str)
        return workload.tune(budget, device=device, strategy=strategy, seed=seed, objective=objective, listen=listen)
    problem, _ = precisions.problem(checks.precision(precision), workload, dtype, sizes)
    request = tuner.TuningRequest(problem, None, Budget.parse(budget), strategy, seed, objective=objective)
    if isinstance(device, list | tuple) or device == device_module.EVERY:
        return _tune_on_each(request, device, listen)
    device_module.check(device)
    assert device is None or isinstance(device, str)
    return _tune_on_one(replace(request, device=device), listen)


def _check_kernel(sizes: Mapping[str, object], precision: Precision | None, device: Selector | None) -> None:
    """Raise ArgumentError for arguments of ``tune`` that do not apply to a user's kernel."""
    if sizes:
        raise ArgumentError(f"a Kernel has its own arguments; leave out {', '.join(sizes)}")
    if precision is not None:
        raise ArgumentError("a Kernel has its own precision; leave precision out")
    if not isinstance(device, str | None) or device == device_module.EVERY:
        raise ArgumentError("a Kernel is tuned on one device at a time; name one")


def _tune_on_one(request: tuner.TuningRequest, listen: Callable[[Progress], None] | None) -> TuningResult:
    """Search on the request's device, starting from what other tuners found for the problem."""
    problem, info = request.problem, device_module.get(request.device).info
    suggested = foreign_starts.starts(workloads.get(problem.workload), problem, info)
    with watching.shown(listen) as listener, ResultStore.default() as store:
        first_ceilings.ensure(info)
        result = tuner.tune(replace(request, suggested=suggested), store, listener, info=info)
    perform.forget()
    return result


def _tune_on_each(request: tuner.TuningRequest, selector: Selector, listen: Callable[[Progress], None] | None) -> list[TuningResult]:
    """Search on each of several devices; see ``many_devices.tune``."""
    infos = [opened.info for opened in device_module.several(selector)]
    ResultStore.default().close()  # opened once, so that an unusable store is reported before anything is measured
    with watching.shown(listen, several=True) as listener:
        for info in infos:
            first_ceilings.ensure(info)
        results = many_devices.tune(request, infos, ResultStore.default, listener)
    perform.forget()
    return results


@overload
def explain(
    workload: str, *, dtype: str = "float32", device: str | None = None, precision: Precision | None = None, **sizes: int | str | bool
) -> Choice: ...


@overload
def explain(
    workload: str,
    *,
    dtype: str = "float32",
    device: list[str] | tuple[str, ...],
    precision: Precision | None = None,
    **sizes: int | str | bool,
) -> Split: ...


def explain(
    workload: str,
    *,
    dtype: str = "float32",
    device: str | Sequence[str] | None = None,
    precision: Precision | None = None,
    **sizes: int | str | bool,
) -> Choice | Split:
    """The configuration that the routines use for a problem, and where it comes from.

    ``workload``, ``dtype``, ``precision`` and ``sizes`` are as for ``tune``. If the native product runs in place of the precision that was
    asked for, the explanation says so.

    With a list of devices, or ``"all"``, the result is a ``Split``: how these devices shared the problem the last time in this process, or
    how they are expected to share it. ``workload`` may then also be a routine of ``portatile.wavelets`` that takes a batch, such as
    ``"magicfilter3d"``, with the sizes ``orbitals``, ``n1``, ``n2``, ``n3``.

    Raises UnknownNameError for an unknown name, ArgumentError for invalid sizes or options, DeviceNotFoundError for an unknown device.

    Examples:
        >>> import portatile
        >>> portatile.explain("gemm", m=64, n=64, k=64).reason in ("tuned", "near problem", "near device", "default")
        True
    """
    if workload in batches.ROUTINES:
        return _of_batch(workload, dtype, device, precision, sizes)
    problem, note = precisions.problem(checks.precision(precision), workload, dtype, sizes)
    if device is None or (isinstance(device, str) and device != device_module.EVERY):
        return _choice(problem, device, precision, note)
    selected = device_module.several(device)
    if precisions.chosen_by_device(checks.precision(precision)):
        problem = precisions.preferred(problem, *(each.info for each in selected))
    return splits.last(problem, selected) or several.expected(selected, problem)


def _choice(problem: Problem, device: str | None, precision: Precision | None, note: str) -> Choice:
    """The configuration for a problem on one device; its explanation ends with ``note`` and other remarks for users."""
    engine = Engine(device_module.get(device))
    computed = precisions.preferred(problem, engine.device.info) if precisions.chosen_by_device(checks.precision(precision)) else problem
    choice = engine.choose(computed)
    why = precisions.IN_PLACE_OF_THREE if problem.workload == "gemm3m" else precisions.BY_ITSELF_NOTE
    beyond = "" if choice.config.get("FORM") == precisions.NATIVE else precisions.BEYOND.get(computed.workload, "")
    notes = [note, _note(engine, computed, choice), "" if computed is problem else why, beyond]
    notes.append(precisions.accuracy_given_up(checks.precision(precision), computed, engine.device.info))
    if device is None and settings.selection() == (None, None):
        notes += [host_blas.note(computed, engine.device.info.kind == "cpu")]
    return replace(choice, explanation="; ".join(filter(None, (choice.explanation, *notes)))) if any(notes) else choice


def _of_batch(
    routine: str, dtype: str, device: Selector | None, precision: Precision | None, sizes: Mapping[str, int | str | bool]
) -> Split:
    """How several devices share a batch of orbitals. Raises ArgumentError for fewer than two devices, or a ``precision``."""
    if checks.precision(precision):
        raise ArgumentError(f"{routine} has its own precision; leave precision out")
    selected = () if device is None else device_module.several(device)
    if len(selected) < 2:
        raise ArgumentError(
            f"on one device {routine} consists of convolutions: explain one with explain('convolution', ...), or name several devices"
        )
    return batches.explained(routine, dtype, selected, sizes)


def _note(engine: Engine, problem: Problem, choice: Choice) -> str:
    """Remarks on a choice for users: the workload's own note, or the notes of the products in its plan, each with its count."""
    workload, info = workloads.get(problem.workload), engine.device.info
    own = workload.note(problem, choice.config, info)
    if own or problem.options.get("precision", precisions.NATIVE) == precisions.NATIVE:
        return own
    products = [step.problem for step in workload.plan(problem, choice.config, info).steps if isinstance(step, Call)]
    of_products = Counter(_note(engine, product, engine.choose(product)) for product in products)
    return "; ".join(f"{count} of {len(products)} products: {note}" for note, count in of_products.items() if note)
