"""The end of a tuning run: the fastest few race against each other, and what came of it becomes their trial."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from statistics import median

from portatile.records import Problem, canonical, duration
from portatile.trials import Certificate, Standing, Trial
from portatile.tuning.final import ranking, reserved_time
from portatile.tuning.protocol import Evaluated
from portatile.tuning.search import planner
from portatile.tuning.search.objective import Goal
from portatile.tuning.search.planner import Planner
from portatile.tuning.search.supervisor import Supervisor
from portatile.tuning.search.worker_process import Variant

_WAIT = 0.7  # of the time: as long as the race waits for what is being evaluated
_SHORT_WAIT = 1.0  # seconds of it where the rounds need all the time: what is nearly done shall not be lost


@dataclass
class FinalComparison:
    """``trials`` are those of the run, by configuration; ``default`` is the default's key. ``add`` stores a trial and counts it.

    ``tell`` hears who is about to race, ``seconds`` says what the race may take, ``collect`` takes in what the workers still had. Where
    ``goal`` is not the time, its best race; the race's times then go into what it makes of a trial, and change nobody's standing.
    ``unraced`` says why no race was held among those who would have had to, once it is decided.
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
    goal: Goal
    unraced: str = ""

    def decide(self) -> tuple[Trial, ...]:
        """Hold the race, unless an earlier run held it and nothing is new; the finalists in the order of their places."""
        field, seconds = self._proven(), self.seconds()
        races = {trial.standing.race if trial.standing else "" for trial in field}
        if self.goal.is_time and len(field) > 1 and len(races) == 1 and "" not in races:
            return tuple(sorted(field, key=lambda trial: trial.rank))
        if len(field) < 2:
            return ()
        self.unraced = "no time was left for it"
        if seconds <= 0:
            return ()
        distinguishing = reserved_time.rounds([trial.median for trial in field], ranking.LOOKS[0])
        least = min(distinguishing, seconds)
        if not self.supervisor.calm(min(_WAIT * seconds, max(seconds - least, _SHORT_WAIT))):
            self.unraced = "a variant was still running when the time was up"
            return ()
        self.collect()
        field, seconds = self._proven(), self.seconds()
        if seconds <= 0:
            return ()
        count = reserved_time.affordable([trial.median for trial in field], max(seconds, least))
        if count == 0:
            self.unraced = f"a few rounds take too long at {duration(field[0].median)} a run"
            return ()
        return self._hold(field[:count], seconds, least)

    def field(self) -> list[Trial]:
        """Who is fast enough to race."""
        if self.goal.is_time:
            return ranking.contenders(tuple(self.trials.values()), self.trials[self.default])
        valid = [trial for trial in self.trials.values() if trial.status == "ok"]
        return sorted(valid, key=self.goal.score)[: ranking.FIELD]

    def _proven(self) -> list[Trial]:
        return [trial for trial in self.field() if trial.proven]

    def _hold(self, field: Sequence[Trial], seconds: float, least: float) -> tuple[Trial, ...]:
        """Hold a race and keep what came of it; nothing where it was not decided."""
        self.tell(field)
        entries: list[Variant] = []
        costs = []
        for number, trial in enumerate(field):
            plan = self.planner.plan(self.problem, trial.config)
            variant = self.planner.variant(number, trial.config, plan)
            entries.append(replace(variant, parts=variant.parts[-1:]))  # the small problems were right in the search, and take time
            costs.append(ranking.cost(trial, plan.workspace))
        ran: list[Evaluated] = []
        held = self.supervisor.race(tuple(entries), tuple(trial.median for trial in field), seconds, least)
        for outcome in held.outcomes:
            if outcome.status == "ok":
                ran.append(outcome)
            else:
                gone = replace(field[outcome.number], status=outcome.status, message=outcome.message, samples=(), event_samples=())
                self.add(replace(gone, certificate=None, standing=None, time=planner.now()))
        if len(ran) < 2:
            self.unraced = held.message or "fewer than two were still right"
            return ()
        self.unraced = ""
        slower = ranking.drift([median(outcome.samples) for outcome in ran], [field[outcome.number].comparable for outcome in ran])
        race, raced = datetime.now(UTC).isoformat(), []
        for finisher in ranking.finish([outcome.samples for outcome in ran], [costs[outcome.number] for outcome in ran]):
            outcome = ran[finisher.number]
            before = field[outcome.number]
            standing = Standing(finisher.seconds / slower, finisher.interval, finisher.place, finisher.equal, race)
            proof = self._proof(before, entries[outcome.number], outcome)
            worst = max((check.error for check in proof.checks), default=outcome.error)
            raced.append(replace(before, samples=outcome.samples, error=worst, certificate=proof, standing=standing, time=proof.time))
        if not self.goal.is_time:
            earlier = {canonical(trial.config): trial.standing for trial in field}
            raced = sorted((replace(t, standing=earlier[canonical(t.config)]) for t in raced), key=self.goal.score)
        for trial in raced:  # the winner first: whenever the run is killed, it leads
            self.add(trial)
        return tuple(raced)

    def _proof(self, before: Trial, entry: Variant, outcome: Evaluated) -> Certificate:
        """What the search found on the small problems, and the race on the timed one."""
        proof = self.planner.certificate(entry, outcome.errors, before.source)
        if before.certificate is None or not before.certificate.holds(before.device, before.source):
            return proof
        return replace(proof, checks=(*before.certificate.checks[:-1], *proof.checks))
