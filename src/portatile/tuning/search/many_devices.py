"""Tune one problem on several devices. Devices that do not disturb each other are tuned at the same time, each by its own thread.

Searches on devices of one kind share their findings (see ``cooperation``). Searches on one piece of hardware run one after another; so do
those on CPUs, which compilers and other searches would slow down. Compiled texts are shared through the cache, and the CPU's cores are
divided among the searches that run at the same time.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from portatile import processes, workloads
from portatile.errors import PortatileError
from portatile.formatting import duration
from portatile.records import DeviceInfo
from portatile.store import ResultStore, device_key
from portatile.thread_turns import short_turns
from portatile.tuning.search import agreement, tuner
from portatile.tuning.search.cooperation import Cooperation, Participant, alone
from portatile.tuning.search.planner import PreparedSearch
from portatile.tuning.search.request import Listener, Progress, TuningRequest, TuningResult
from portatile.user_warnings import warn

_BESIDE = 2  # processes of each search that are busy beside its compile workers: the timing worker and the parent


@dataclass
class _Search:
    """The search on one device; ``number`` is its place among those asked for."""

    number: int
    request: TuningRequest
    info: DeviceInfo
    cooperation: Participant = field(default_factory=alone)
    result: TuningResult | None = None
    error: BaseException | None = None


@dataclass
class _Interrupt:
    """Ends searches in other threads: what listens to them raises KeyboardInterrupt there, after the trial under way."""

    asked: threading.Event = field(default_factory=threading.Event)

    def within(self, listen: Listener | None) -> Listener:
        def heard(progress: Progress) -> None:
            if listen is not None:
                listen(progress)
            if self.asked.is_set():
                raise KeyboardInterrupt

        return heard

    def noted(self, step: Callable[[], None]) -> None:
        """Take a step; Ctrl-C meanwhile is noted."""
        try:
            step()
        except KeyboardInterrupt:
            self.asked.set()


def rounds(infos: Sequence[DeviceInfo]) -> list[list[int]]:
    """The indices of the devices that are tuned at the same time, round after round.

    GPUs and accelerators come first, each piece of hardware once a round; then the processors one by one.
    """
    groups: list[list[int]] = []
    for place, info in enumerate(infos):
        if info.kind != "cpu":
            free = next((group for group in groups if all(infos[other].physical_id != info.physical_id for other in group)), None)
            if free is None:
                groups.append([place])
            else:
                free.append(place)
    return groups + [[place] for place, info in enumerate(infos) if info.kind == "cpu"]


def tune(
    request: TuningRequest, infos: Sequence[DeviceInfo], open_store: Callable[[], ResultStore], listen: Listener | None = None
) -> list[TuningResult]:
    """Tune the request's problem on each of the devices, each with the whole budget; the results in the order of ``infos``.

    ``open_store`` is called once for each search. If the search on a device fails, a warning names it and its result is left out; if all
    fail, the first exception is raised. Ctrl-C ends every running search as it ends a single one, and starts no further search.
    """
    searches = [_Search(place, replace(request, device=info.id), info) for place, info in enumerate(infos)]
    interrupt = _Interrupt()
    for places in rounds(infos):
        if not interrupt.asked.is_set():
            _tune_at_once([searches[place] for place in places], open_store, interrupt, listen)
    results = [search.result for search in searches if search.result is not None]
    if not results:
        raise next((search.error for search in searches if search.error is not None), KeyboardInterrupt())
    for same in _of_one_kind(searches):
        _compare([search.result for search in same if search.result is not None])
    for search in searches:
        if search.error is not None and not isinstance(search.error, KeyboardInterrupt):
            message = str(search.error).splitlines()[0]
            warn(f"{infos[search.number].id} was not tuned: {message}")
    return results


def _of_one_kind(searches: Sequence[_Search]) -> list[list[_Search]]:
    """The searches, those on devices of one kind together."""
    kinds: dict[str, list[_Search]] = {}
    for search in searches:
        kinds.setdefault(device_key(search.info), []).append(search)
    return list(kinds.values())


def _compare(results: Sequence[TuningResult]) -> None:
    """Warn of devices that are slower or faster than others of their kind, because their winners may differ."""
    defaults = {result.device.id: result.default for result in results}
    for name in sorted(agreement.disagreeing(defaults)):
        times = ", ".join(f"{other} {duration(trial.median)}" for other, trial in defaults.items())
        warn(f"{name} does not run the default as others of its kind do ({times}): tune it by itself")


def _tune_at_once(
    searches: Sequence[_Search], open_store: Callable[[], ResultStore], interrupt: _Interrupt, listen: Listener | None
) -> None:
    """Run some searches at once, to the end of the last."""
    first = searches[0].request
    for same in _of_one_kind(searches):
        shared = Cooperation(len(same))
        for place, search in enumerate(same):
            search.cooperation = shared.participant(place)
    workload = first.workload or workloads.get(first.problem.workload)
    with PreparedSearch(workload, first.problem, first.seed) as prepared, short_turns():
        _threads(searches, open_store, interrupt, listen, prepared)


def _threads(
    searches: Sequence[_Search],
    open_store: Callable[[], ResultStore],
    interrupt: _Interrupt,
    listen: Listener | None,
    prepared: PreparedSearch,
) -> None:
    """A thread for each search."""
    lock = threading.Lock()

    def one_by_one(progress: Progress) -> None:
        if listen is not None:
            with lock:
                listen(progress)

    def run(search: _Search) -> None:
        try:
            with open_store() as store:
                search.result = tuner.tune(search.request, store, interrupt.within(one_by_one), prepared, search.info, search.cooperation)
        except (PortatileError, KeyboardInterrupt) as error:
            search.error = error
        except BaseException as error:  # a programming error here or in a listener: the other searches end, and it is raised below
            search.error = error
            interrupt.asked.set()

    for search in searches:
        search.request = replace(search.request, jobs=_jobs(search.request, len(searches)))
    threads = [threading.Thread(target=contextvars.copy_context().run, args=(run, search)) for search in searches]
    for thread in threads:
        if not interrupt.asked.is_set():
            interrupt.noted(thread.start)
    for thread in threads:
        while thread.is_alive():
            interrupt.noted(thread.join)
    for search in searches:
        if search.error is not None and not isinstance(search.error, (PortatileError, KeyboardInterrupt)):
            raise search.error


def _jobs(request: TuningRequest, count: int) -> int | None:
    """Compile workers of one of so many searches that run at once."""
    if request.jobs is not None or count == 1:
        return request.jobs
    return max(processes.cores() // count - _BESIDE, 1)
