"""The end of a tuning run: the fastest few race against each other, and what came of it becomes their trial."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from portatile.records import Certificate, Problem, Standing, Trial
from portatile.tuning import finals, planner
from portatile.tuning.child import Variant
from portatile.tuning.planner import Planner
from portatile.tuning.protocol import Evaluated
from portatile.tuning.supervisor import Supervisor

_RACES = 2  # the second for those that a slower machine has put ahead of the winner of the first
_WAIT = 0.7  # of the time: as long as the race waits for what is being evaluated


@dataclass
class Finals:
    """``trials`` are those of the run, by configuration; ``default`` is the default's key. ``add`` stores a trial and counts it.

    ``tell`` hears who is about to race, ``seconds`` says what the race may take, ``collect`` takes in what the workers still had.
    """

    problem: Problem
    planner: Planner
    supervisor: Supervisor
    trials: dict[str, Trial]
    default: str
    add: Callable[[Trial], None]
    tell: Callable[[Sequence[Trial]], None]
    seconds: Callable[[], float]
    collect: Callable[[], None]
    finalists: tuple[Trial, ...] = ()

    def decide(self) -> tuple[Trial, ...]:
        """Race as long as somebody has to; the trials of the last race in the order of their places."""
        for _ in range(_RACES):
            field, seconds = self._field(), self.seconds()
            if len(field) < 2 or seconds <= 0 or not self.supervisor.calm(_WAIT * seconds):
                break
            self.collect()
            seconds = self.seconds()
            if seconds <= 0 or not self._hold(self._field(), seconds):
                break
        return self.finalists

    def _field(self) -> list[Trial]:
        """Who has to race: the fastest few, unless they have; then those that would beat the winner because the machine is slower now."""
        trials = [trial for trial in self.trials.values() if trial.status == "ok"]
        if not self.finalists:
            field = finals.contenders(trials, self.trials[self.default])
            races = {trial.standing.race if trial.standing else "" for trial in field}
            if len(field) < 2 or len(races) > 1 or "" in races:
                return field
            self.finalists = tuple(sorted(field, key=lambda trial: trial.rank))  # an earlier run's race, with nothing new beside it
        winner = self.finalists[0]
        ahead = sorted((trial for trial in trials if trial.rank < winner.rank), key=lambda trial: trial.rank)
        return [winner, *ahead[: finals.FIELD - 1]]

    def _hold(self, field: Sequence[Trial], seconds: float) -> bool:
        """Hold a race and keep what came of it; whether it was decided."""
        self.tell(field)
        entries: list[Variant] = []
        costs = []
        for number, trial in enumerate(field):
            plan = self.planner.plan(self.problem, trial.config)
            variant = self.planner.variant(number, trial.config, plan)
            entries.append(replace(variant, parts=variant.parts[-1:]))  # the small problems were right in the search, and take time
            costs.append(finals.cost(trial, plan.workspace))
        ran: list[Evaluated] = []
        for outcome in self.supervisor.race(tuple(entries), tuple(trial.median for trial in field), seconds).outcomes:
            if outcome.status == "ok":
                ran.append(outcome)
            else:
                gone = replace(field[outcome.number], status=outcome.status, message=outcome.message, samples=(), event_samples=())
                self.add(replace(gone, certificate=None, standing=None, time=planner.now()))
        if len(ran) < 2:
            return False
        race, raced = datetime.now(UTC).isoformat(), []
        for finisher in finals.finish([outcome.samples for outcome in ran], [costs[outcome.number] for outcome in ran]):
            outcome = ran[finisher.number]
            before = field[outcome.number]
            standing = Standing(finisher.seconds, finisher.interval, finisher.place, finisher.tied, race)
            proof = self._proof(before, entries[outcome.number], outcome)
            worst = max((check.error for check in proof.checks), default=outcome.error)
            raced.append(replace(before, samples=outcome.samples, error=worst, certificate=proof, standing=standing, time=proof.time))
        for trial in raced:  # the winner first: whenever the run is killed, it leads
            self.add(trial)
        self.finalists = tuple(raced)
        return True

    def _proof(self, before: Trial, entry: Variant, outcome: Evaluated) -> Certificate:
        """What the search found on the small problems, and the race on the timed one."""
        proof = self.planner.certificate(entry, outcome.errors, before.source)
        if before.certificate is None or not before.certificate.holds(before.device, before.source):
            return proof
        return replace(proof, checks=(*before.certificate.checks[:-1], *proof.checks))
