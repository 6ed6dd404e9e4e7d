"""Results that need attention: wrong, missing, uncertain or poor, each with advice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from portatile.figures import quantities
from portatile.reports.groups import Group
from portatile.reports.overview import PlacedGroup
from portatile.store import device_key

_NOISY = 0.1  # half the distance between the quartiles, as a share of the median
_LATE, _ENOUGH = 0.85, 12  # a best found after this share of the trials, in a search of so many
_POOR, _SHORT = 0.3, 20e-6  # a share of the ceiling that is little, in a run that is no mere launch
_FAILING = 0.5
_BEYOND = 1.15  # a suspicious share of an arithmetic ceiling, which no cache can raise


@dataclass(frozen=True)
class Concern:
    """One kind of trouble: its heading, why it matters and what mends it; and where it is: a text and a link for each."""

    heading: str
    advice: str
    command: str
    places: tuple[tuple[str, str, str], ...]
    severe: bool = False


def concerns(placed: Sequence[PlacedGroup]) -> list[Concern]:
    """The kinds of trouble there are, the worst first; ``places`` hold anchor, problem and detail."""
    kinds = (
        ("Nothing valid", "Every configuration failed; the messages below say why.", "", True, _hopeless),
        ("A winner was found wrong", "It is no longer used. Tune again with the present driver.", "", True, _wrong),
        (
            "Faster than the ceiling",
            "The ceiling is too low; measure it again while nothing else runs.",
            "portatile bench peak",
            False,
            _beyond,
        ),
        ("Far below the ceiling", "A longer search, or another form of the kernel, may find more.", "", False, _poor),
        ("Still improving at the end", "The best came late: a longer search is likely to find better.", "", False, _late),
        ("Times scatter", "Something else ran on the device. Tune again on an idle device before you quote the figure.", "", False, _noisy),
        (
            "Most trials failed",
            "The search lost most of its budget. Add constraints that exclude configurations which cannot work.",
            "",
            False,
            _failing,
        ),
    )
    listed = []
    for heading, advice, command, severe, find in kinds:
        places = [(place.anchor, place.title, detail) for place in placed for detail in find(place.group)]
        if places:
            listed.append(Concern(heading, advice, command, tuple(places), severe))
    return [*listed, *_ceilings(placed)]


def _hopeless(group: Group) -> Iterator[str]:
    if group.best is None:
        yield ", ".join(f"{failure.count} {failure.kind}" for failure in group.failures)


def _wrong(group: Group) -> Iterator[str]:
    if group.certificate is not None and group.certificate.failure:
        yield group.certificate.failure.splitlines()[0]


def _beyond(group: Group) -> Iterator[str]:
    share = None if group.best is None else group.share(group.best)
    if share is not None and share[0] in ("arithmetic", "matrix units") and share[1] > _BEYOND:
        yield f"{quantities.percent(share[1])} of {share[0]}"


def _poor(group: Group) -> Iterator[str]:
    share = None if group.best is None else group.share(group.best)
    if group.best is not None and share is not None and share[1] < _POOR and group.best.comparable > _SHORT:
        yield f"{quantities.percent(share[1])} of {share[0]}"


def _late(group: Group) -> Iterator[str]:
    improved = [step.number for step in group.steps if step.improved]
    if improved and len(group.trials) >= _ENOUGH and improved[-1] > _LATE * len(group.trials):
        yield f"the best is trial {improved[-1]} of {len(group.trials)}"


def _noisy(group: Group) -> Iterator[str]:
    if group.best is not None and (scatter := group.best.spread) > _NOISY:
        yield f"±{quantities.percent(scatter)} of {quantities.duration(group.best.comparable)}"


def _failing(group: Group) -> Iterator[str]:
    if group.best is not None and group.failed > _FAILING * len(group.trials):
        yield f"{group.failed} of {quantities.count(len(group.trials), 'trial')}"


def _ceilings(placed: Sequence[PlacedGroup]) -> Iterator[Concern]:
    """Devices without ceilings, and those that were measured only briefly."""
    devices = {device_key(one.group.device): one.group for one in placed if one.group.flops or one.group.traffic}
    unknown, brief = [], []
    for group in devices.values():
        place = ("", f"{group.device.name} ({group.way})", "")
        if group.ceilings is None or not group.ceilings.measured:
            unknown.append(place)
        elif group.ceilings.brief:
            brief.append(place)
    measure = "portatile bench peak && portatile bench bandwidth"
    if unknown:
        yield Concern(
            "No ceilings", "Without ceilings the report cannot show what share of the device a winner reaches.", measure, tuple(unknown)
        )
    if brief:
        yield Concern(
            "Ceilings measured briefly", "They may be a little too low. Measure them again before you quote a share.", measure, tuple(brief)
        )
