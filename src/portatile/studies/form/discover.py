"""The studies there are: every file of ``studies/`` that declares one."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from pathlib import Path

from portatile.errors import UnknownNameError
from portatile.studies.form.study import Study

_PACKAGE = "portatile.studies"


@cache
def studies() -> dict[str, Study]:
    """All studies by name, in alphabetical order."""
    listed: list[Study] = []
    for module in pkgutil.iter_modules([str(Path(__file__).parents[1])]):
        declared = None if module.ispkg else getattr(importlib.import_module(f"{_PACKAGE}.{module.name}"), "STUDY", None)
        if isinstance(declared, Study):
            listed.append(declared)
    return {study.name: study for study in sorted(listed, key=lambda study: study.name)}


def get(name: str) -> Study:
    """The study called ``name``; raises UnknownNameError with the names there are."""
    if name not in studies():
        raise UnknownNameError("study", name, studies())
    return studies()[name]
