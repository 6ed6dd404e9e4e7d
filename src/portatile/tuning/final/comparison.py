"""The final comparison, the parent's side: it chooses the finalists, has them run in turns, and stores their trials."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from statistics import median

from portatile.formatting import duration
from portatile.records import Problem, canonical
from portatile.trials import Certificate, Standing, Trial, now
from portatile.tuning.final import ranking, reserved_time
from portatile.tuning.protocol import Evaluated
from portatile.tuning.search.objective import Goal
from portatile.tuning.search.planner import Planner
from portatile.tuning.search.supervisor import Supervisor
from portatile.tuning.search.worker_process import Variant

_WAIT = 0.7  # share of the time that may pass waiting for the variant under way
_SHORT_WAIT = 1.0  # seconds of waiting where the rounds need all the time, so that a variant that is nearly done is not lost


@dataclass
class FinalComparison:
    """``trials`` are those of the run, by configuration; ``default`` is the default's key. ``add`` stores a trial and counts it.

    ``announce`` is called with the finalists before they run, ``seconds`` returns the available time, ``collect`` takes the workers' last
    outcomes; ``entering``: seconds to load and check a finalist again. If ``goal`` is not the time, the best by the goal take part; the
    new times then enter their scores, and no trial's standing changes.
    ``unraced`` says, after ``decide``, why no final comparison was held among several candidates.
    """

    problem: Problem
    planner: Planner
    supervisor: Supervisor
    trials: dict[str, Trial]
    default: str
    add: Callable[[Trial], None]
    announce: Callable[[Sequence[Trial]], None]
    seconds: Callable[[], float]
    collect: Callable[[], None]
    goal: Goal
    entering: float = 0.0
    unraced: str = ""

    def decide(self) -> tuple[Trial, ...]:
        """Hold the final comparison unless an earlier run held it with the same finalists; returns these in the order of their places."""
        field, seconds = self._fully_checked(), self.seconds()
        races = {trial.standing.race if trial.standing else "" for trial in field}
        if self.goal.is_time and len(field) > 1 and len(races) == 1 and "" not in races:
            return tuple(sorted(field, key=lambda trial: trial.rank))
        if len(field) < 2:
            return ()
        self.unraced = "no time was left for it"
        if seconds <= 0:
            return ()
        least = self._rounds(field, seconds)
        if not self.supervisor.drain(min(_WAIT * seconds, max(seconds - least, _SHORT_WAIT))):
            self.unraced = "a variant was still running when the time was up"
            return ()
        self.collect()
        field, seconds = self._fully_checked(), self.seconds()
        if seconds <= 0:
            return ()
        count = reserved_time.affordable([trial.median for trial in field], max(seconds, least), self.entering)
        if count == 0:
            self.unraced = f"a few rounds take too long at {duration(field[0].median)} a run"
            return ()
        return self._hold(field[:count], seconds, min(least, self._rounds(field[:count], seconds)))

    def _rounds(self, field: Sequence[Trial], seconds: float) -> float:
        """Seconds for the rounds: as many as distinguish the finalists, if that much time remains after loading them."""
        took = [trial.median for trial in field]
        left = max(seconds - len(field) * self.entering, min(reserved_time.rounds(took, ranking.LEAST_ROUNDS), seconds))
        return min(reserved_time.rounds(took, ranking.LOOKS[0]), left)

    def field(self) -> list[Trial]:
        """The trials that are fast enough to take part. If the objective is not the time, the best and the default come first, so that
        winner and default are measured at the same time.
        """
        default = self.trials[self.default]
        if self.goal.is_time:
            return ranking.contenders(tuple(self.trials.values()), default)
        valid = [trial for trial in self.trials.values() if trial.status == "ok"]
        best, *others = sorted(valid, key=self.goal.score)[: ranking.FIELD] or [default]
        if default is best or default.status != "ok":
            return [best, *others]
        return [best, default, *(trial for trial in others if trial is not default)]

    def _fully_checked(self) -> list[Trial]:
        return [trial for trial in self.field() if trial.fully_checked]

    def _hold(self, field: Sequence[Trial], seconds: float, least: float) -> tuple[Trial, ...]:
        """Run the finalists in turns and store their trials; returns an empty sequence if the result is undecided."""
        self.announce(field)
        entries: list[Variant] = []
        costs = []
        for number, trial in enumerate(field):
            plan = self.planner.plan(self.problem, trial.config)
            variant = self.planner.variant(number, trial.config, plan)
            entries.append(replace(variant, parts=variant.parts[-1:]))  # the search checked the small problems; they would take time
            costs.append(ranking.cost(trial, plan.workspace))
        ran: list[Evaluated] = []
        answer = self.supervisor.race(tuple(entries), tuple(trial.median for trial in field), seconds, least)
        for outcome in answer.outcomes:
            if outcome.status == "ok":
                ran.append(outcome)
            else:
                gone = replace(field[outcome.number], status=outcome.status, message=outcome.message, samples=(), event_samples=())
                self.add(replace(gone, certificate=None, standing=None, time=now()))
        if len(ran) < 2:
            self.unraced = answer.message or "fewer than two were still right"
            return ()
        self.unraced = ""
        slower = ranking.drift([median(outcome.samples) for outcome in ran], [field[outcome.number].comparable for outcome in ran])
        race, raced = datetime.now(UTC).isoformat(), []
        for finalist in ranking.rank([outcome.samples for outcome in ran], [costs[outcome.number] for outcome in ran]):
            outcome = ran[finalist.number]
            before = field[outcome.number]
            standing = Standing(finalist.seconds / slower, finalist.interval, finalist.place, finalist.equal, race)
            proof = self._proof(before, entries[outcome.number], outcome)
            worst = max((check.error for check in proof.checks), default=outcome.error)
            raced.append(replace(before, samples=outcome.samples, error=worst, certificate=proof, standing=standing, time=proof.time))
        if not self.goal.is_time:
            earlier = {canonical(trial.config): trial.standing for trial in field}
            raced = sorted((replace(t, standing=earlier[canonical(t.config)]) for t in raced), key=self.goal.score)
        for trial in raced:  # the winner first: it leads even if the run is killed now
            self.add(trial)
        return tuple(raced)

    def _proof(self, before: Trial, entry: Variant, outcome: Evaluated) -> Certificate:
        """The certificate: the search's checks of the small problems, and the final comparison's check of the timed one."""
        proof = self.planner.certificate(entry, outcome.errors, before.source)
        if before.certificate is None or not before.certificate.holds(before.device, before.source):
            return proof
        return replace(proof, checks=(*before.certificate.checks[:-1], *proof.checks))
