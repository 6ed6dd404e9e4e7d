"""The studies there are: every file of ``studies/`` that declares one."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from pathlib import Path

from portatile.errors import UnknownNameError
from portatile.studies.framework.study import Study

_PACKAGE = "portatile.studies"
_FOLDER = Path(__file__).parents[1]


@cache
def studies() -> dict[str, Study]:
    """All studies by name, in alphabetical order."""
    listed = [study for module in pkgutil.iter_modules([str(_FOLDER)]) if not module.ispkg and (study := _of(module.name)) is not None]
    return {study.name: study for study in sorted(listed, key=lambda study: study.name)}


def get(name: str) -> Study:
    """The study called ``name``; raises UnknownNameError with the known names. If a file has that name, only that file is imported."""
    module = name.replace("-", "_")
    if module.isidentifier() and (_FOLDER / f"{module}.py").is_file() and (study := _of(module)) is not None and study.name == name:
        return study
    if name not in studies():
        raise UnknownNameError("study", name, studies())
    return studies()[name]


@cache
def _of(module: str) -> Study | None:
    """The study that a file declares."""
    declared = getattr(importlib.import_module(f"{_PACKAGE}.{module}"), "STUDY", None)
    return declared if isinstance(declared, Study) else None
