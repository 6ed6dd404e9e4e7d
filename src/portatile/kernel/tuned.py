"""What tuning a user's kernel found: a result that can be printed, and called with arrays."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from portatile import device as devices
from portatile.records import duration, rate
from portatile.trials import Trial
from portatile.tuning.search.tuner import Result

if TYPE_CHECKING:
    from portatile.kernel import Kernel


@dataclass(frozen=True, repr=False)
class TunedKernel(Result):
    """A ``TuningResult`` of a kernel of one's own. ``print`` shows a summary; calling it launches the winner on its device.

    ``kernel`` is what was tuned.
    """

    kernel: Kernel = field(kw_only=True)

    @property
    def verified(self) -> bool:
        """Whether the winner's outputs were compared with a reference; without one only its memory accesses were watched."""
        return self.kernel.verified

    @property
    def checked(self) -> str:
        """On how many sets of arguments the winner was compared with the reference, and how near it came; in words."""
        if not self.verified:
            return "UNVERIFIED: the kernel has no reference, its outputs were compared with nothing"
        count = 0 if self.best.certificate is None else len(self.best.certificate.checks)
        where = f"on {count} sets of arguments" if count > 1 else "on the arguments of its definition alone"
        return f"verified {where}: error {self.best.error or 0.0:.2g} of the allowed"

    @property
    def text(self) -> str:
        """The kernel's OpenCL C with the winner's parameters as definitions in front, for use elsewhere."""
        source = self.kernel.source(self.best.config)
        return "".join(f"#define {name} {value}\n" for name, value in source.defines) + source.text

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Launch the winner on the device it was tuned on; arguments and result as for ``Kernel.__call__``."""
        bound = self.kernel.arguments.bind(arguments, named, self.kernel.entry)
        return self.kernel.trusted(self.best, devices.get(self.device.id), bound).run(bound)

    def __str__(self) -> str:
        """Winner and default, how many trials there were, and whether results were verified."""
        device = self.device
        failed = ", ".join(f"{count} {kind}" for kind, count in sorted(self.failures.items())) or "none"
        return "\n".join(
            (
                f"{self.kernel.describe()} on {device.name} ({device.platform}, {device.id})",
                f"winner   {self._line(self.best)}",
                f"default  {self._line(self.default)}",
                f"{len(self.trials)} configuration{'s' if len(self.trials) != 1 else ''} in {self.seconds:.1f} s, failed: {failed}",
                self.checked,
            )
        )

    def __repr__(self) -> str:
        """Short, for a notebook: of hundreds of trials the winner."""
        return f"TunedKernel({self.kernel.describe()}: {self._line(self.best)})"

    def _line(self, trial: Trial) -> str:
        config = " ".join(f"{name}={value}" for name, value in trial.config.items())
        if trial.status != "ok":
            return f"failed ({trial.status})  {config}"
        faster = f"  {self.default.comparable / trial.comparable:.2f} x" if self.default.status == "ok" else ""
        return f"{duration(trial.median)}  {rate(*self.kernel.speed(trial.problem, trial.median))}{faster}  {config}".rstrip()
