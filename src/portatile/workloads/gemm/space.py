"""The legal configurations of a GEMM: one space, in which a parameter that a form does not use has one value."""

from __future__ import annotations

from portatile.records import DeviceInfo, Problem, Value
from portatile.space import ParameterSpace
from portatile.workloads.gemm.plan import ceil_div, takes_vectors


def build(problem: Problem, device: DeviceInfo) -> ParameterSpace:
    """The space for a problem on a device.

    Facts beside those of problem and device: ``tiles``, how many tiles of 128 x 128 there are; ``plain_a``, ``plain_b``, whether gpu.cl
    copies the operand in vectors as it lies, so that packing cannot help; ``matrix_units`` for float64; ``local_limit``, see there.
    """
    tiles = ceil_div(problem.sizes["m"], 128) * ceil_div(problem.sizes["n"], 128)
    facts: dict[str, Value] = {
        **problem.facts(),
        **device.facts(),
        "tiles": tiles,
        "plain_a": takes_vectors(problem, "a"),
        "plain_b": takes_vectors(problem, "b"),
        "matrix_units": matrix_units(device),
        "local_limit": local_limit(device),
    }
    return ParameterSpace(_PARAMETERS, _CONSTRAINTS, facts)


def matrix_units(device: DeviceInfo) -> bool:
    """Whether the device multiplies 16 x 8 x 8 blocks of float64 in one instruction: NVIDIA from compute capability 9.0 to 10.0."""
    return device.architecture.rstrip("af") in ("sm_90", "sm_100")


def local_limit(device: DeviceInfo) -> int:
    """Bytes of local memory that a static array may take.

    NVIDIA's OpenCL names 48 KB, but its compiler takes arrays up to what CUDA offers: 227 KB from compute capability 9.0, 163 KB at 8.0.
    """
    known = {"sm_80": 163 * 1024, "sm_90": 227 * 1024, "sm_100": 227 * 1024}
    return known.get(device.architecture.rstrip("af"), device.local_memory)


_PARAMETERS: dict[str, tuple[Value, ...]] = {
    "FORM": ("generic", "cpu", "gpu"),
    "MMA": (False, True),
    "TXC": (False,),
    "SM": (False, True),
    "VL": (1, 2, 4, 8, 16),
    "TR": (1, 2, 3, 4, 5, 6, 8, 10, 12),
    "TC": (1, 2, 4, 8, 12, 16, 24, 32, 48),
    "TBR": (1, 4, 8, 16, 32),
    "TBC": (1, 4, 8, 16, 32),
    "TRR": (1, 2, 3, 4),
    "TCR": (1, 2, 3, 4),
    "LANES": (0, 2, 4, 8, 16),
    "KB": (1, 4, 6, 8, 16, 32),
    "UNROLL": (1, 2, 4, 6, 8, 16, 32),
    "PAD": (0, 1, 4),
    "STAGES": (1, 2, 3, 4),
    "KG": (1, 2, 4),
    "DOUBLE": (False, True),
    "PACK_A": (False, True),
    "PACK_B": (False, True),
    "SPLIT_K": (1, 2, 4, 8, 16),
    "RASTER": (1, 8),
    "MAD": ("fma", "mad", "a*b+c"),
    "SCALARS": (False, True),
}


_CONSTRAINTS = (
    # the ten parameters of D1.8, and what the generic text adds
    "FORM != 'generic' or (VL <= 8 and TR <= 8 and TC <= 8 and TC % VL == 0)",
    "FORM != 'generic' or (TBR in (8, 16, 32) and TBC in (8, 16, 32) and 64 <= TBR * TBC <= min(256, max_work_group_size))",
    "FORM != 'generic' or 4 <= TR * TRR * TC * TCR <= 72",
    "FORM != 'generic' or (TRR == 1 or TRR * TR <= 8 and TR in (1, 2, 4))",
    "FORM != 'generic' or (TCR == 1 or TCR * TC <= 8 and TC in (1, 2, 4))",
    "FORM != 'generic' or (KB in (6, 8, 16) and UNROLL in (1, KB))",
    "FORM != 'generic' or (PAD == 0 or SM and PAD % VL == 0)",
    "FORM != 'generic' or not SM or KB * (TBR * TR * TRR + TBC * TC * TCR + 2 * PAD) * itemsize <= local_memory",
    # one work-item to a group, a register tile of vectors
    "FORM != 'cpu' or (TBR == TBC == TRR == TCR == KB == 1 and not SM)",
    "FORM != 'cpu' or (TC % VL == 0 and TC // VL in (1, 2, 3, 4) and TR >= 2 and 4 <= TR * TC // VL <= 30)",
    "FORM != 'cpu' or UNROLL in (1, 2, 4, 8)",
    "FORM != 'cpu' or PACK_B or (trans_b == 'N' and n >= TC)",
    "FORM != 'cpu' or SCALARS",
    # tiles in local memory, asynchronous copies
    "FORM != 'gpu' or (SM and not SCALARS)",
    "FORM != 'gpu' or (VL * itemsize in (8, 16) and VL > 1)",
    "FORM != 'gpu' or MMA or (TR == VL and TC == VL)",
    "FORM != 'gpu' or MMA or TBR in (8, 16, 32) and TBC in (8, 16, 32)",
    "FORM != 'gpu' or (LANES > 0 and TBC % LANES == 0 and TBR % (32 // LANES) == 0)",
    "FORM != 'gpu' or 16 * 4 <= TR * TRR * TC * TCR * itemsize <= (512 if itemsize == 4 or MMA else 256)",
    "FORM != 'gpu' or (KB in (8, 16, 32) and UNROLL == KB)",
    "FORM != 'gpu' or PAD in (0, 4)",
    "FORM != 'gpu' or TBR * TBC * KG <= min(512, max_work_group_size)",
    "FORM != 'gpu' or KG == 1 or tiles <= 2 * compute_units",
    "FORM != 'gpu' or not DOUBLE or (STAGES > 1 and KB // KG // (8 if MMA else 1) % 2 == 0)",
    "FORM != 'gpu' or STAGES * KB * (TBR * TR * TRR + TBC * TC * TCR + 2 * PAD) * itemsize <= local_limit",
    "FORM != 'gpu' or KG == 1 or TBR * TR * TRR * TBC * TC * TCR * itemsize <= local_limit",
    "FORM != 'gpu' or not PACK_A or not plain_a",
    "FORM != 'gpu' or not PACK_B or not plain_b",
    "FORM != 'gpu' or MAD == ('a*b+c' if device_kind == 'cpu' else 'fma')",
    "not MMA or (FORM == 'gpu' and matrix_units and itemsize == 8)",
    "not MMA or (VL == 2 and TR == 2 and TC == 4 and LANES == 4 and PAD == 4 and KB // KG % 8 == 0)",
    # what a form does not use
    "FORM == 'gpu' or (STAGES == 1 and LANES == 0 and KG == 1 and RASTER == 1 and not DOUBLE)",
    "FORM != 'generic' or not (PACK_A or PACK_B)",
    "FORM != 'cpu' or PAD == 0",
    # for large problems and processors these never pay, and the space stays small enough to list
    "SPLIT_K == 1 or (SPLIT_K * 64 <= k and tiles * SPLIT_K <= 4 * compute_units)",
    "RASTER == 1 or tiles >= 64",
    "device_kind != 'cpu' or FORM != 'generic' or (UNROLL == KB and PAD == 0 and MAD == 'a*b+c' and SCALARS and VL in (4, 8))",
    "device_kind != 'cpu' or FORM != 'gpu' or (STAGES == 2 and LANES == 4 and KG == 1 and PAD == 0 and RASTER == 1 and not DOUBLE and KB == 8)",
    "device_kind == 'cpu' or FORM != 'cpu' or (VL <= 4 and TR * TC <= 64 and MAD == 'fma' and UNROLL in (1, 4))",
)
