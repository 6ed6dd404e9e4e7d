"""How work-groups of the gpu form copy an operand that is not packed: which of the sources in tiles.cl its layout allows."""

from __future__ import annotations

from portatile.records import Problem
from portatile.workloads.gemm.reals import in_place
from portatile.workloads.gemm.storage import k_fast, takes_vectors, takes_vectors_along_k

_PAIR = 8  # bytes of two float32


def source(problem: Problem, name: str, *, along: bool, transposed: bool, pairs: bool, shifted: bool) -> str:
    """The name of the source (see tiles.cl) for operand ``name``, "a" or "b".

    ``along``: an operand with k fast keeps that order in local memory. ``transposed``: otherwise it is transposed in vectors. ``pairs``:
    rows that are not aligned for vectors are copied two elements at a time if possible. ``shifted``: rows with k slow are copied as the
    vectors that contain them.

    ``along``: with k fast it lies in local memory as it is. ``transposed``: else vectors are transposed on the way there. ``pairs``: rows
    that are aligned to no vectors are copied two elements at a time where they may. ``shifted``: with k slow by the vectors that hold them.
    """
    if not in_place(problem, name):
        return "complexes"
    if not k_fast(problem, name):
        if takes_vectors(problem, name):
            return "vectors"
        if shifted and shifts(problem, name):
            return "shifted"
        return "pairs" if pairs and takes_vectors(problem, name, _PAIR) else "elements"
    if along:
        if takes_vectors_along_k(problem, name):
            return "lines"
        return "dot_pairs" if pairs and takes_vectors_along_k(problem, name, _PAIR) else "dots"
    return "transposed" if transposed and takes_vectors_along_k(problem, name) else "columns"


def shifts(problem: Problem, name: str) -> bool:
    """Whether SHIFT applies to operand ``name``: k is slow, the first row begins at a vector, and the others may begin anywhere."""
    layout, vector = problem.layout[name], 16 // problem.itemsize
    begins = layout.alignment % 16 == 0 and layout.offset % vector == 0
    return begins and not k_fast(problem, name) and not takes_vectors(problem, name)
