"""The public face: ``__all__`` is sorted and equal to the names that a user sees."""

from __future__ import annotations

import ast
from pathlib import Path
from types import FunctionType, ModuleType

import portatile

FACE = Path(portatile.__file__)


def test_all_is_sorted_and_has_no_repeats() -> None:
    assert list(portatile.__all__) == sorted(set(portatile.__all__))


def test_all_equals_the_public_names() -> None:
    submodules = {path.stem for path in FACE.parent.glob("*.py")} | {path.name for path in FACE.parent.iterdir() if path.is_dir()}
    seen = {name for name in dir(portatile) if not name.startswith("_")}
    modules = {name for name in seen & submodules if isinstance(getattr(portatile, name), ModuleType)}
    seen -= modules - set(portatile.__all__) | {"annotations"}
    assert set(portatile.__all__) == seen


def test_every_public_name_is_there_and_explained() -> None:
    for name in portatile.__all__:
        value = getattr(portatile, name)
        if callable(value):
            assert (value.__doc__ or "").strip(), f"portatile.{name} has no docstring"
        if isinstance(value, FunctionType):
            assert ">>>" in (value.__doc__ or ""), f"portatile.{name} has no example"


def test_the_face_holds_nothing_else() -> None:
    """No function bodies, no classes: they live in their modules."""
    tree = ast.parse(FACE.read_text())
    defined = [node.name for node in tree.body if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and not node.name.startswith("__")]
    assert defined == []
