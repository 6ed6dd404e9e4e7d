"""What each form of GEMM declares of its parameters, a table for each form: for the page of parameters, with no measurement behind it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from portatile.workloads.gemm.forms import forms
from portatile.workloads.gemm.parameters import declaration
from recorded import Table, markdown


def from_results(folder: Path) -> Iterator[Table]:
    """The tables; ``folder`` holds results, of which none is needed."""
    for name, form in forms().items():
        rows = []
        for parameter, said in declaration(form.point).parameters.items():
            meaning = f"{said.meaning} Only where `{said.when}`." if said.when else said.meaning
            rules = "<br>".join(words for words, _ in said.must)
            rows.append([f"`{parameter}`", ", ".join(map(str, said.values)), meaning, rules])
        text = markdown(("parameter", "values that are tried", "meaning", "rules"), rows, numbers=False)
        yield Table(f"parameters-{name}", text, frozenset(), f"FORM = {name}")
