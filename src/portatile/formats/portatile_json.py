"""portatile's own JSON: the list of trials that `results --json` prints, and the document of `tune --json`."""

from __future__ import annotations

import msgspec

from portatile.errors import ArgumentError
from portatile.records import DeviceInfo, Problem
from portatile.trials import Trial


class _Run(msgspec.Struct):
    """A tuning run. Its trials lack problem and device, which the document has once."""

    problem: Problem
    device: DeviceInfo
    trials: list[dict[str, object]]


def is_one(document: object) -> bool:
    """Whether a JSON document is a list of trials or the document of ``tune --json``."""
    return isinstance(document, list) or (isinstance(document, dict) and {"problem", "device", "trials"} <= set(document))


def read(document: object) -> tuple[list[Trial], str]:
    """The trials, and their path in the document; raises ArgumentError with the path of what is wrong."""
    try:
        if isinstance(document, list):
            return msgspec.convert(document, list[Trial]), "$"
        run = msgspec.convert(document, _Run)
    except msgspec.ValidationError as error:
        raise ArgumentError(str(error)) from None
    origin = {"problem": msgspec.to_builtins(run.problem), "device": msgspec.to_builtins(run.device)}
    try:
        return msgspec.convert([trial | origin for trial in run.trials], list[Trial]), "$.trials"
    except msgspec.ValidationError as error:
        raise ArgumentError(str(error).replace("`$[", "`$.trials[")) from None
