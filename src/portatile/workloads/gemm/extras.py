"""What a product may have beyond C = alpha op(A) op(B) + beta C of whole matrices: a batch, a triangle, an addend other than C."""

from __future__ import annotations

from dataclasses import dataclass

from portatile.records import Layout
from portatile.workloads.gemm.forms.gpu.stream import Sharing
from portatile.workloads.gemm.storage import Batch


@dataclass(frozen=True)
class Triangle:
    """A triangle whose work is skipped: the zeros of a triangular A or B, or the part of C that is not wanted.

    - ``operand``: "a", "b" or "c". ``zeros``: the side of its diagonal on which the triangle lies, "below" or "above".
    - ``unit``: the diagonal counts as ones. The memory of the triangle, and of a ``unit`` diagonal, may hold anything: zeros and ones are
      substituted when the operand is packed, or, in the gpu form, when a tile is loaded.
    - ``mirrored``: op(B) is op(A) transposed, or conjugate transposed, and lies in the same memory.
    - ``hermitian``: the diagonal of C is real.
    - ``symmetric``: nothing is skipped. A or B is symmetric, its triangle ``zeros`` is not stored, and the kernel reads the elements of the
      other triangle instead. Only the gpu form does this, on NVIDIA's GPUs, for an operand that is not packed.
    """

    operand: str
    zeros: str
    unit: bool = False
    mirrored: bool = False
    hermitian: bool = False
    symmetric: bool = False


@dataclass(frozen=True)
class Extras:
    """What a plan does beyond one ordinary product.

    - ``batch``: the problem is the first of a batch, and every launch computes all of them.
    - ``triangle``: the work that is skipped.
    - ``sharing``, for a triangle of C in the gpu form: how its work-groups share the tiles.
    - ``addend``: C = alpha op(A) op(B) + beta D, where the operand ``d`` has this layout; in the gpu form, without split k.
    """

    batch: Batch | None = None
    triangle: Triangle | None = None
    sharing: Sharing | None = None
    addend: Layout | None = None


ORDINARY = Extras()
"""One product of whole matrices."""
