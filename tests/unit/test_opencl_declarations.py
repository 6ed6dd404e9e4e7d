"""Which declarations a text gets in place of all: every function that it names in all its forms, whatever stands between."""

from __future__ import annotations

import re

import pytest

from portatile.device.opencl import declarations

POCL = "Portable Computing Language OpenCL 3.0 PoCL 3.0-rc2  Linux, Release, RELOC, LLVM 14.0.6 / 3.0-rc2"
pytestmark = pytest.mark.skipif(declarations._folder() is None, reason="PoCL's package is not installed")


def names(text: str | None) -> set[str]:
    assert text is not None
    return set(re.findall(r"\b(\w+) ?\(", text))


def test_what_is_named_is_declared() -> None:
    text = "#define ROOT(x) sqrt(x)\nkernel void f(global float *x) { x[get_global_id(0)] = ROOT(x[0]) + vload4(0, x).x; }"
    declared = declarations.declared(text, ["-DMAD=fma"], POCL)
    assert declared is not None
    assert {"sqrt", "get_global_id", "vload4", "fma"} <= names(declared)
    assert not {"tanpi", "vload8", "read_imagef", "atomic_fetch_min_explicit"} & names(declared)  # the last one on several lines
    assert len(declared) < 60_000


def test_every_overload_comes_along() -> None:
    folder = declarations._folder()
    assert folder is not None
    whole = (folder / "opencl-c.h").read_text()
    for name in ("fma", "clamp", "atomic_add", "convert_int4_rte"):
        declared = declarations.declared(f"x = {name}(y);", [], POCL)
        assert declared is not None
        assert len(re.findall(rf"\b{name}\(", declared)) == len(re.findall(rf"\b{name}\(", whole)) > 0


def test_parts_are_directives_and_statements() -> None:
    lines = ["#if a && \\", "    b", "int f(int x,", "", "      int y);", "#endif", "typedef struct {", "int a;", "} pair;", "int g(void);"]
    parts = list(declarations._parts(lines))
    assert parts == ["#if a && \\\n    b", "int f(int x,\n      int y);", "#endif", "typedef struct {\nint a;", "} pair;", "int g(void);"]
    assert [declarations._function(part) for part in parts] == ["", "f", "", "", "", "g"]


def test_a_name_across_lines_is_seen() -> None:
    assert "sqrt" in names(declarations.declared("x = sq\\\nrt(y);", [], POCL))


@pytest.mark.parametrize(
    ("text", "options", "compiler"),
    [
        ("#define CAT(a, b) a ## b", [], POCL),
        ("%:define CAT(a, b) a %:%: b", [], POCL),
        ('  # include "mine.h"', [], POCL),
        ("x = y;", ["-I", "folder"], POCL),
        ("x = y;", [], POCL.replace("PoCL 3.0-rc2", "PoCL 5.0+debian")),
        ("x = y;", [], "NVIDIA CUDA OpenCL 3.0"),
    ],
)
def test_what_may_name_functions_otherwise_gets_them_all(text: str, options: list[str], compiler: str) -> None:
    assert declarations.declared(text, options, compiler) is None
