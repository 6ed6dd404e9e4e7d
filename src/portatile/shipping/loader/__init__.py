"""The loader of exported folders: parts that an export joins into one file, which imports nothing of portatile."""

from __future__ import annotations

import ast
from importlib import resources

PARTS = ("table", "opencl_devices", "cuda_devices", "load")
"""In the order in which they need each other; the docstring of the last one is that of the file."""


def text() -> str:
    """The parts as one file."""
    docstring, imports, bodies = "", set[str](), []
    for name in PARTS:
        part = resources.files(__package__).joinpath(f"{name}.py").read_text(encoding="utf-8")
        tree = ast.parse(part)
        docstring = ast.get_docstring(tree, clean=False) or ""
        heads = [line for line in tree.body if isinstance(line, ast.Import | ast.ImportFrom)]
        imports |= {ast.unparse(line) for line in heads if "portatile" not in ast.unparse(line)}
        bodies.append("".join(part.splitlines(keepends=True)[heads[-1].end_lineno :]).strip())
    future = "from __future__ import annotations"
    others = [line for line in imports - {future} if "numpy" not in line]
    rest = "\n".join([*sorted(others, key=lambda line: (line.startswith("from"), line)), "", *sorted(imports - {future, *others})])
    head = f'"""{docstring}"""\n\n{future}\n\n{rest}\n\n'
    return head + "\n\n\n".join(bodies) + "\n"
