"""Launches that pack A and B into panels: one operand (pack.cl), or both together by work-groups that move squares (pack_both.cl)."""

from __future__ import annotations

from portatile.records import Arg, Launch, Problem, Source, Temporary, Value
from portatile.template import load
from portatile.workloads.gemm import epilogue, reals, shared_texts
from portatile.workloads.gemm.oriented import OrientedProduct
from portatile.workloads.gemm.passing import ceil_div, factor, long_scalar, matrix, real, scalar
from portatile.workloads.gemm.storage import k_fast

_SQUARE = 32  # rows, and steps of k, of the square that a work-group moves
_ROWS = 8  # rows of work-items in such a group
_SLICE = 256  # steps of k that one work-item of a processor packs, so that its slice of a panel stays in the first-level cache
_CONTIGUOUS = 512  # bytes that such a work-item reads in a row if panels are narrow and k is slow


def together(product: OrientedProduct) -> bool:
    """Whether one launch packs A and B: plain reals on a GPU, no batch, and no triangle that one operand's panels would need to know."""
    point, triangle = product.point, product.triangle
    if product.batch is not None or (triangle is not None and (triangle.operand != "c" or product.repeats_panels)):
        return False
    squares = reals.plain(product.problem) and not epilogue.block_of(product.problem) and not (point.SERIAL or point.PANELS)
    return squares and point.packs("a") and point.packs("b")


def both(product: OrientedProduct) -> tuple[Launch, tuple[Temporary, ...]]:
    """The launch that packs A and B, and their panels."""
    problem, depth = product.problem, product.depth
    widths = {name: product.panels(name)[1] for name in "ab"}
    defines: dict[str, Value] = {f"{name.upper()}_WIDTH": width for name, width in widths.items()}
    facts = {f"{name.upper()}_FAST": k_fast(problem, name) for name in "ab"}
    source = shared_texts.beside(product.point, "pack_both.cl", defines, real=real(problem), COMPLEX=False, **facts)
    args = [scalar(name, problem.sizes[name]) for name in "mnk"] + [scalar("depth", depth), factor(problem, "alpha")]
    for name in "ab":
        args += [*matrix(product.names[name], "in", problem.layout[name]), Arg(f"{name}_panels", role="temporary")]
    lengths = {name: product.panels(name)[0] * width for name, width in widths.items()}
    groups = sum(ceil_div(length, _SQUARE) for length in lengths.values()) * ceil_div(depth, _SQUARE)
    launch = Launch(source, "gemm_pack", (groups * _SQUARE, _ROWS, 1), (_SQUARE, _ROWS, 1), tuple(args))
    return launch, tuple(Temporary(f"{name}_panels", length * depth * problem.itemsize) for name, length in lengths.items())


def one(product: OrientedProduct, name: str) -> tuple[Launch, Temporary]:
    """The launch that packs A or B, of a batch those of all problems, and the panels."""
    problem, depth, count = product.problem, product.depth, product.copies(name)
    panels, width = product.panels(name)
    args = [
        *(scalar(label, value) for label, value in (("across", product.across(name)), ("k", problem.sizes["k"]), ("depth", depth))),
        factor(problem, "alpha"),
        *matrix(product.names[name], "in", problem.layout[name]),
        Arg(f"{name}_panels", role="temporary"),
    ]
    if product.batch is not None:
        args += [long_scalar("base_batch", product.stored_step(name)), long_scalar("panels_batch", product.step(name))]
    if epilogue.block_of(problem):
        args += epilogue.block_arguments(problem, name)
    if product.point.SERIAL:
        span, steps = _work_item(product, name)
        size, group = (ceil_div(panels, span) * ceil_div(depth, steps), 1, count), (1, 1, 1)
    else:
        squares = ceil_div(panels * width, _SQUARE) * ceil_div(depth, _SQUARE)
        size, group = (squares * _SQUARE, _ROWS, count), (_SQUARE, _ROWS, 1)
    launch = Launch(_source(product, name), "gemm_pack", size, group, tuple(args))
    return launch, Temporary(f"{name}_panels", count * panels * width * depth * problem.itemsize)


def _work_item(product: OrientedProduct, name: str) -> tuple[int, int]:
    """(panels, steps of k) that one work-item of a processor packs of A or B."""
    span, steps = spans(product.problem, product.panels(name)[1], k_fast(product.problem, name))
    return span, product.depth if product.point.PANELS else steps


def spans(problem: Problem, width: int, fast: bool) -> tuple[int, int]:
    """(panels, steps of k) that one work-item of a processor packs, of an operand with or without ``fast`` k, in panels of this width."""
    span = 1 if fast else ceil_div(_CONTIGUOUS, width * problem.itemsize)
    return span, max(_SLICE // span, 16)


def _source(product: OrientedProduct, name: str) -> Source:
    """The text of pack.cl for A or B: the form's own, or the one that forms share."""
    problem, point, triangle = product.problem, product.point, product.triangle
    span, steps = _work_item(product, name)
    defines: dict[str, Value] = {"WIDTH": product.panels(name)[1]}
    if point.SERIAL:
        defines |= {"SPAN": span} if point.PANELS else {"SLICE": steps, "SPAN": span}
    kept = ""
    if triangle is not None and triangle.operand == name:  # the side of the diagonal that is packed, of rows along k
        kept = "below" if (triangle.zeros == "above") == (name == "a") else "above"
    halves = point.SERIAL and product.device.can.half_vectors and reals.types_of(problem).operand.name == "float16"
    facts: dict[str, Value] = {"SERIAL": point.SERIAL, "K_FAST": k_fast(problem, name), "BATCH": product.batch is not None, "NAME": name}
    facts |= {"TRIANGLE": kept, "UNIT": bool(kept and triangle and triangle.unit), "EIGHT": halves}
    if not point.PANELS:
        return shared_texts.beside(point, "pack.cl", defines, **{**shared_texts.types(problem), **facts})
    facts |= {"SIDE": name, **point.facts(problem, product.device, bare_sums=False)}
    return load(point.FILE, "pack.cl", defines, **{**shared_texts.types(problem), **facts})
