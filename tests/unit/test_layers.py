"""The layers of the package: every file imports only from modules above its own, and optional bindings only where they belong."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "src" / "portatile"
DRAWING = Path(__file__).parents[2] / "docs" / "internals" / "architecture.md"

# docs/internals/architecture.md draws this. A part is a file or a folder directly under portatile; it imports from the lines above
# its own, and within its own folder.
LAYERS: tuple[tuple[str, ...], ...] = (
    ("errors", "capabilities"),
    (
        "dtypes",
        "settings",
        "processes",
        "notebooks",
        "open_files",
        "output_files",
        "formatting",
        "user_warnings",
        "provenance",
        "thread_turns",
    ),
    ("records", "delays"),
    ("images", "space", "trials", "figures"),
    ("workload", "cache", "dialect", "strategies"),
    ("device", "template"),
    ("program", "store", "workloads", "formats", "model", "predict", "verify"),
    ("guarded_memory", "workspaces", "launch_arguments"),
    ("execute", "flat_plans", "repair", "select", "ceilings", "arguments"),
    ("tuning", "runtime", "measure"),
    ("kernel", "routines"),
    ("api", "array_api", "doctor", "torch", "wavelets", "studies", "reports", "shipping", "fleet"),
    ("cli",),
)
DEPTH = {part: depth for depth, layer in enumerate(LAYERS) for part in layer}

# The order within runtime/, which the same page draws: one line knows those before it.
RUNTIME = ("host", "one_device", "request", "in_parts", "several_devices", "perform", "separable", "repeated")

# What a plain installation may lack, or what must not be loaded by accident, and the files that may name it.
BINDINGS: dict[str, tuple[str, ...]] = {
    "pyopencl": ("device/opencl/", "shipping/loader"),
    "cuda": ("device/cuda/",),
    "pcpp": ("dialect/",),
    "ml_dtypes": ("dtypes",),
    "torch": ("torch",),
    "cupy": (),
    "scipy": (),
    "psycopg": ("store/",),
    "distributed": ("fleet/",),
    "dask": ("fleet/",),
    "click": ("cli/",),
    "rich": ("cli/", "tuning/search/progress_line.py"),
}

FILES = sorted(path for path in PACKAGE.rglob("*.py") if "__pycache__" not in path.parts)


@cache
def nodes(text: str) -> tuple[ast.AST, ...]:
    """The syntax tree of ``text``, its root first: parsed once for all that is asked of a file."""
    return tuple(ast.walk(ast.parse(text)))


@cache
def text_of(path: Path) -> str:
    return path.read_text()


def root_of(path: Path) -> ast.Module:
    root = nodes(text_of(path))[0]
    assert isinstance(root, ast.Module)
    return root


def imported(text: str, package: str) -> Iterator[tuple[int, str]]:
    """Line and dotted name of everything that ``text``, a file of ``package``, imports anywhere."""
    for node in nodes(text):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parent = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*parent, base]) if base else ".".join(parent)
            yield from ((node.lineno, f"{base}.{alias.name}") for alias in node.names)


def part_of(dotted: str) -> str | None:
    """The part that ``portatile.part...`` names; None for the package's own public face or another package."""
    parts = dotted.split(".")
    return parts[1] if parts[0] == "portatile" and len(parts) > 1 else None


def package_of(path: Path) -> str:
    return ".".join(("portatile", *path.relative_to(PACKAGE).parent.parts))


def upward(text: str, part: str, package: str) -> list[str]:
    """What ``text``, a file of ``part``, imports from its own layer or from below."""
    wrong = []
    for line, name in imported(text, package):
        target = part_of(name)
        if target is None:
            if name.split(".")[0] == "portatile":
                wrong.append(f"line {line}: imports the public face")
        elif target not in DEPTH:
            wrong.append(f"line {line}: portatile.{target} stands in no layer")
        elif target != part and DEPTH[target] >= DEPTH[part]:
            wrong.append(f"line {line}: {part} (layer {DEPTH[part]}) imports {target} (layer {DEPTH[target]})")
    return wrong


def name_of(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def modules() -> dict[str, Path]:
    """Every module of the package by its dotted name."""
    named = {".".join(("portatile", *path.relative_to(PACKAGE).with_suffix("").parts)): path for path in FILES}
    return {name.removesuffix(".__init__"): path for name, path in named.items()}


def imports_of(files: dict[str, Path]) -> dict[str, set[str]]:
    """What each module imports of the package anywhere in its text, for type checkers too; the folders around a module do not count."""
    found = {}
    for name, path in files.items():
        dotted = [one for _, one in imported(text_of(path), package_of(path))]
        there = {one if one in files else one.rpartition(".")[0] for one in dotted}
        found[name] = (there & set(files)) - {name}
    return found


def cycles(graph: dict[str, set[str]]) -> list[list[str]]:
    """The sets of modules of which each reaches all others by what is imported."""
    reached = {name: _closure(graph, name) for name in graph}
    circular = {frozenset(other for other in reach if name in reached[other]) for name, reach in reached.items() if name in reach}
    return sorted(sorted(cycle) for cycle in circular)


def _closure(graph: dict[str, set[str]], start: str) -> set[str]:
    seen: set[str] = set()
    ahead = list(graph[start])
    while ahead:
        name = ahead.pop()
        if name not in seen:
            seen.add(name)
            ahead += graph[name]
    return seen


INSIDE = [path for path in FILES if name_of(path) not in ("__init__.py", "__main__.py")]


def test_test_files_share_through_support() -> None:
    """None imports another one: what several need lies in ``tests/support``."""
    tests = DRAWING.parents[2] / "tests"
    result = re.compile(r"^\s*(?:from|import) (?:(?:unit|device|browser)\.)?(?:test_|conftest)", re.MULTILINE)
    assert [str(path.relative_to(tests)) for path in tests.rglob("*.py") if result.search(path.read_text())] == []


def test_every_part_stands_in_a_layer() -> None:
    parts = {path.relative_to(PACKAGE).parts[0].removesuffix(".py") for path in INSIDE}
    assert parts - set(DEPTH) == set(), "give it a layer here and in docs/internals/architecture.md"


def test_the_drawing_shows_the_package() -> None:
    drawn = re.findall(r"^\| \d+ \| ([^|]*) \| [^|]+ \|$", DRAWING.read_text(), re.MULTILINE)
    parts = {path.relative_to(PACKAGE).parts[0].removesuffix(".py") for path in INSIDE}
    assert [set(row.split(", ")) for row in drawn] == [set(layer) for layer in LAYERS], "redraw docs/internals/architecture.md"
    assert set(DEPTH) == parts, "a layer names what is gone"


def test_what_the_drawing_names_is_there() -> None:
    """Every file and folder that the page names."""
    root = DRAWING.parents[2]
    folders = (*PACKAGE.parent.rglob("*/"), *root.glob("*/"), *root.glob("tests/**/"))
    there = {path.name for path in (*FILES, *root.glob("tests/**/*.py"))} | {f"{path.name}/" for path in folders}
    assert set(re.findall(r"[\w-]+\.py|[\w-]+/", DRAWING.read_text())) - there == set()


LISTING = (
    *("device", "dialect", "dialect/passes", "tuning", "tuning/final", "tuning/search", "tuning/worker", "workloads"),
    *("runtime", "runtime/host", "runtime/one_device", "runtime/in_parts", "runtime/several_devices", "runtime/repeated"),
)


@pytest.mark.parametrize("folder", LISTING)
def test_a_folder_lists_its_files(folder: str) -> None:
    """The docstring of a large folder names each file in it, by subject."""
    docstring = ast.get_docstring(root_of(PACKAGE / folder / "__init__.py")) or ""
    files = {path.stem for path in (PACKAGE / folder).glob("*.py") if not path.name.startswith("_")}
    assert files - set(re.findall(r"``(\w+)``", docstring)) == set(), f"name them in the docstring of {folder}/__init__.py"


def test_imports_go_down() -> None:
    wrong = {
        name_of(path): upward(text_of(path), path.relative_to(PACKAGE).parts[0].removesuffix(".py"), package_of(path)) for path in INSIDE
    }
    assert len(wrong) > 400, "the package was not found"
    assert {name: lines for name, lines in wrong.items() if lines} == {}


def test_imports_go_down_within_the_runtime() -> None:
    named = {name.split(".")[2]: set[str]() for name in modules() if name.startswith("portatile.runtime.")}
    for name, imports in imports_of(modules()).items():
        if name.startswith("portatile.runtime."):
            named[name.split(".")[2]] |= {one.split(".")[2] for one in imports if one.startswith("portatile.runtime.")}
    assert set(named) == set(RUNTIME), "give it a place here and in docs/internals/architecture.md"
    assert {name: later for name, imports in named.items() if (later := imports - set(RUNTIME[: RUNTIME.index(name) + 1]))} == {}


def test_no_file_imports_itself_round_a_corner() -> None:
    """Imports under ``TYPE_CHECKING`` and inside functions count: they hide a cycle, they do not break it."""
    assert cycles(imports_of(modules())) == []


BACK_ENDS = {path.name for path in (PACKAGE / "device").iterdir() if (path / "__init__.py").is_file()}


def test_back_ends_are_asked_what_they_can_and_not_what_they_are_called() -> None:
    """No back end's name stands alone in a string outside ``device/`` and ``dialect/``.

    But in ``capabilities.py``, below them, which reads records from before devices said what they can do.
    """
    above = [path for path in FILES if not name_of(path).startswith(("device/", "dialect/")) and name_of(path) != "capabilities.py"]
    named = {name_of(path): back_ends_named(text_of(path)) for path in above}
    assert {name: lines for name, lines in named.items() if lines} == {}, "ask device.info.can, or device.backends()"


def back_ends_named(text: str) -> list[int]:
    """The lines of ``text`` with a string that is a back end's name, or quotes one as constraints do."""
    quoted = re.compile(rf"""['"]({"|".join(BACK_ENDS)})['"]""")
    strings = [node for node in nodes(text) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    return [node.lineno for node in strings if node.value in BACK_ENDS or quoted.search(node.value)]


@pytest.mark.parametrize("text", ["if info.backend == 'cuda': pass", "rule = \"backend == 'opencl'\""])
def test_the_check_sees_names_of_back_ends(text: str) -> None:
    assert back_ends_named(text) == [1]


def test_there_are_back_ends_to_look_for() -> None:
    assert {"opencl", "cuda"} <= BACK_ENDS


def test_the_check_sees_cycles() -> None:
    assert cycles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}) == [["b", "c"]]
    assert cycles({"a": {"b"}, "b": set()}) == []


def test_bindings_stay_in_their_files() -> None:
    strays = [
        f"{name_of(path)}, line {line}: {name}"
        for path in FILES
        for line, name in imported(text_of(path), package_of(path))
        if name.split(".")[0] in BINDINGS and not name_of(path).startswith(BINDINGS[name.split(".")[0]] or ("nowhere",))
    ]
    assert strays == []


def test_no_two_public_classes_have_one_name() -> None:
    places: dict[str, list[str]] = {}
    for path in FILES:
        for node in root_of(path).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(name_of(path))
    assert {name: files for name, files in places.items() if len(files) > 1} == {}


def test_a_file_opens_by_saying_what_it_is() -> None:
    docstrings = {name_of(path): ast.get_docstring(root_of(path)) or "" for path in FILES}
    silent = [name for name, docstring in docstrings.items() if len(docstring.split()) < 3]
    assert silent == [], "these do not open with a sentence that says which idea they are"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("from portatile import tuning", "settings (layer 1) imports tuning (layer 9)"),
        ("def f():\n    import portatile.space", "settings (layer 1) imports space (layer 3)"),
        ("from . import processes", "settings (layer 1) imports processes (layer 1)"),
        ("import portatile", "imports the public face"),
        ("from portatile.nowhere import x", "stands in no layer"),
    ],
)
def test_the_check_sees_what_is_wrong(text: str, complaint: str) -> None:
    (found,) = upward(text, "settings", "portatile")
    assert complaint in found


def test_the_check_lets_pass_what_is_right() -> None:
    assert upward("import math\nfrom portatile.errors import ArgumentError\nfrom .errors import X", "records", "portatile") == []
