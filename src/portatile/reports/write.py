"""The report as a file: the selection of trials from a store, and the page on disk."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from portatile import output_files, settings, workloads
from portatile.device import matches
from portatile.errors import UnknownNameError, UsageError
from portatile.reports import page
from portatile.reports.groups import Group, gather
from portatile.store import ResultStore, known_results
from portatile.trials import Trial
from portatile.workload import Workload

DEFAULT_PATH = "portatile-report.html"


@dataclass(frozen=True)
class Selection:
    """The trials of a report: of ``store`` (``None``: the user's), of ``workload``, on devices that ``device`` means, as
    ``portatile.device.matches`` has it.

    ``kernels``: workloads that are not installed, for the text and the operations of theirs.
    """

    store: Path | None = None
    workload: str | None = None
    device: str | None = None
    kernels: tuple[Workload, ...] = ()


def select(selection: Selection) -> list[Group]:
    """The groups of trials selected; none where the store does not exist yet.

    Raises UnknownNameError for a workload that is neither installed nor in the store, UsageError for a ``store`` that is not there, and
    StoreError for a file that is no store.
    """
    place = selection.store or settings.load().store
    if selection.store is not None and not selection.store.is_file():
        raise UsageError(f"there is no result store at {selection.store}")
    with ResultStore.reader(place) as store:
        trials = store.trials()
    known = {*workloads.names(), *(trial.problem.workload for trial in trials)}
    if selection.workload is not None and selection.workload not in known:
        raise UnknownNameError("workload", selection.workload, known)
    return gather((trial for trial in trials if _is_selected(trial, selection)), selection.kernels)


def write(groups: Sequence[Group], path: Path, nothing: str) -> None:
    """Write the page to ``path``; raises UsageError if that fails."""
    text = page.render(groups, known_results(), nothing)
    try:
        output_files.write(path, text)
    except OSError as error:
        raise UsageError(f"the report cannot be written to {path}: {error.strerror or error}; choose another file") from error


def report(
    path: str | Path = DEFAULT_PATH,
    *,
    store: str | Path | None = None,
    workload: str | None = None,
    device: str | None = None,
    kernels: Iterable[Workload] = (),
) -> Path:
    """Write the results of tuning as one HTML page that needs no other file and no network; returns its path.

    ``store`` is another file than the user's result store; ``workload`` and ``device`` (a back end, a kind, or a part of an id, name,
    vendor or platform) choose among the trials; ``kernels`` are your own (``portatile.Kernel``), whose text and Gflop/s are then shown
    too. A store without trials gives a page that says so. Raises UsageError for a store that is not there or a file that cannot be
    written, UnknownNameError for an unknown workload.

    Examples:
        >>> import pathlib, tempfile, portatile
        >>> folder = tempfile.mkdtemp()
        >>> page = portatile.report(pathlib.Path(folder) / "tuning.html")
        >>> page.read_text().startswith("<!doctype html>")
        True
    """
    groups = select(Selection(None if store is None else Path(store), workload, device, tuple(kernels)))
    target = Path(path)
    write(groups, target, nothing(workload, device))
    return target


def nothing(workload: str | None, device: str | None) -> str:
    """Why no trials were selected, and what to do."""
    if workload is None and device is None:
        return "the result store is empty. Fill it with:"
    return "no trial in the store is of this workload and device. Tune one with:"


def _is_selected(trial: Trial, selection: Selection) -> bool:
    if selection.workload not in (None, trial.problem.workload):
        return False
    return selection.device is None or matches(trial.device, selection.device)
