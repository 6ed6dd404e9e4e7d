"""Rechecks of a user's kernel: a configuration that was tuned with another text or driver is checked before its first use."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from portatile import cache, select
from portatile.device.base import Device
from portatile.errors import ArgumentError, LaunchError
from portatile.kernel.definition import Definition
from portatile.records import Plan, Problem
from portatile.runtime.one_device.certify import Certifier
from portatile.runtime.one_device.deferred import waiting
from portatile.select import Choice
from portatile.trials import Trial
from portatile.workload import Expected, Inputs, Workload


class Recheck:
    """The rechecks of one kernel on every device. Their results are stored in the binary cache, for later processes too."""

    def __init__(self, kernel: Definition) -> None:
        self._kernel = kernel
        self._certifiers: dict[Device, Certifier] = {}

    def choose(self, problem: Problem, device: Device, results: Sequence[Trial]) -> Choice:
        """The best configuration known for a problem if it may be used on the device; else the default, with a warning."""
        return self.checked(problem, device, select.choose(self._kernel, problem, device.info, results))

    def checked(self, problem: Problem, device: Device, choice: Choice) -> Choice:
        """``choice`` if it may be used on the device; else the default, with a warning.

        It may be used if its trial was checked with the present driver, text and definition, or if it passes the kernel's checks now.
        """
        if choice.trial is None:
            return choice
        certifier = self._certifiers.get(device)
        if certifier is None:
            certifier = self._certifiers[device] = _KernelCertifier(self._kernel, device)
        return certifier.settle(self._kernel, problem, choice, self._kernel.plan(problem, choice.config, device.info))

    def forget(self) -> None:
        """Forget the configurations that a device could not run, so that they are tried again."""
        for certifier in self._certifiers.values():
            certifier.forget()


class _KernelCertifier(Certifier):
    """Checks a user's kernel on the arguments of its definition and its edge cases, the only ones that have a reference."""

    advice = "Tune it again, or correct the text."

    def __init__(self, kernel: Definition, device: Device) -> None:
        self.kernel = kernel
        binaries = cache.default()
        super().__init__(device, binaries, lambda source: waiting.build(source, device, binaries), self._planned)

    def _planned(self, problem: Problem, choice: Choice) -> Plan:
        if problem.options.get("version") != self.kernel.problem().options["version"]:
            raise ArgumentError("it was tuned with another text, launch or reference")
        return self.kernel.plan(problem, choice.config, self._device.info)

    def subjects(self, workload: Workload, problem: Problem, choice: Choice, plan: Plan) -> list[tuple[Problem, Plan]]:
        """The problems of the definition and of the edge cases for which the configuration is legal."""
        own = self.kernel.problem()
        legal = [subject for subject in (own, *workload.awkward(own)) if choice.config in workload.space(subject, self._device.info)]
        if not legal:
            raise LaunchError(f"it is not legal for the arguments with which {self.kernel.entry} was defined, so it cannot be checked")
        return [(subject, self._planned(subject, choice)) for subject in legal]

    def expected(self, workload: Workload, problem: Problem, inputs: Inputs, rng: np.random.Generator) -> dict[str, Expected]:
        """The reference's values. Raises LaunchError if it fails, or if the outputs hold these values already."""
        try:
            outputs = self.kernel.expected(problem)
        except Exception as error:  # a user's code may raise anything
            raise LaunchError(f"its reference failed: {type(error).__name__}: {error}") from error
        if names := self.kernel.cases.already_right(problem, outputs):
            raise LaunchError(f"{names} held the expected values before it ran, so it cannot be checked; clear the array")
        return outputs
