"""A user's metrics of a configuration: numbers computed from parameters, arguments and the time."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from portatile.errors import ArgumentError
from portatile.formatting import spelled
from portatile.kernel.expression import Expression, Given
from portatile.records import Value
from portatile.trials import Trial


@dataclass(frozen=True)
class Metrics:
    """Expressions by name, in the order in which they are printed."""

    expressions: Mapping[str, Expression] = field(default_factory=dict)

    @classmethod
    def of(cls, formulas: Mapping[str, Given], known: Collection[str]) -> Metrics:
        """Parsed expressions over the known names; raises ArgumentError for a malformed one, UnknownNameError for an unknown name."""
        expressions = {name: Expression.of(formula, f"the metric {name}") for name, formula in formulas.items()}
        for name, expression in expressions.items():
            expression.check(known, f"the metric {name}")
        return cls(expressions)

    def of_trial(self, values: Mapping[str, Value], trial: Trial) -> dict[str, float]:
        """The metrics of a valid trial; ``time`` is in seconds. Raises ArgumentError for an expression whose value is not a number."""
        if trial.status != "ok":
            return {}
        names, metrics = {**values, "time": trial.comparable}, {}
        for name, expression in self.expressions.items():
            value = expression(names)
            if isinstance(value, str) or not hasattr(value, "__float__"):
                raise ArgumentError(
                    f"the metric {name}, {expression.text}, is {value!r} with {spelled(trial.config)}, which is not a number"
                )
            metrics[name] = float(value)
        return metrics
