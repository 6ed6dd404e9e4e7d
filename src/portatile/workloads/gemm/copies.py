"""Launches that copy A and B so that the product's loads are wide: contiguous along k (lines.cl), or with aligned rows (aligned.cl)."""

from __future__ import annotations

from collections.abc import Mapping

from portatile.records import Arg, Launch, Temporary, Value
from portatile.workloads.gemm import shared_texts
from portatile.workloads.gemm.oriented import OrientedProduct
from portatile.workloads.gemm.passing import ceil_div, factor, long_scalar, matrix, operand_shapes, scalar
from portatile.workloads.gemm.reals import types_of
from portatile.workloads.gemm.storage import k_fast

_LINE = 128  # bytes of each row of the square that a work-group of lines.cl copies


def contiguous(product: OrientedProduct, names: str) -> tuple[Launch, list[Temporary]]:
    """The launch that copies A, B or both to rows along k, and the copies; of a batch, ``names`` is one operand."""
    problem, batched = product.problem, product.batch is not None
    size, pitch, count = types_of(problem).operand.itemsize, product.point.lines(problem, names[0]), product.copies(names)
    args, made = [scalar("k", problem.sizes["k"]), scalar("pitch", pitch), factor(problem, "alpha")], []
    for name in names:
        made.append(Temporary(f"{name}_lines", count * product.across(name) * pitch * size))
        args += [scalar("across", product.across(name)), *matrix(product.names[name], "in", problem.layout[name])]
        args.append(Arg(f"{name}_lines", role="temporary"))
    if batched:
        args += [long_scalar("base_batch", product.stored_step(names)), long_scalar("lines_batch", product.step(names))]
    facts: dict[str, Value] = {"NAMES": names, "FAST": "".join(name for name in names if k_fast(problem, name))}
    facts |= {"BATCH": batched, "itemsize": size}
    source = shared_texts.beside(product.point, "lines.cl", {}, **{**shared_texts.types(problem), **facts})
    side = _LINE // size
    tall = {name: min(side, 64) if k_fast(problem, name) else side for name in names}
    groups = pitch // side * sum(ceil_div(product.across(name), tall[name]) for name in names)
    return Launch(source, "gemm_lines", (groups * 256, 1, count), (256, 1, 1), tuple(args)), made


def aligned(product: OrientedProduct, pitches: Mapping[str, int]) -> tuple[Launch, list[Temporary]]:
    """The launch that copies those of A and B that ``pitches`` names, not of a batch, to rows this long, and the copies."""
    problem = product.problem
    size, shapes = types_of(problem).operand.itemsize, operand_shapes(problem)
    args, made = [factor(problem, "alpha")], []
    for name, pitch in pitches.items():
        rows, columns = shapes[name]
        made.append(Temporary(f"{name}_aligned", rows * pitch * size))
        args += [scalar(label, value) for label, value in (("rows", rows), ("columns", columns), ("pitch", pitch))]
        args += [*matrix(product.names[name], "in", problem.layout[name]), Arg(f"{name}_aligned", role="temporary")]
    facts = {"itemsize": size, "NAMES": "".join(pitches)}
    source = shared_texts.beside(product.point, "aligned.cl", {}, **{**shared_texts.types(problem), **facts})
    rows, columns = (max(shapes[name][place] for name in pitches) for place in (0, 1))
    sizes = (ceil_div(columns, 64 * 16 // size) * 64, ceil_div(rows, 16) * 4, len(pitches))
    return Launch(source, "gemm_aligned", sizes, (64, 4, 1), tuple(args)), made
