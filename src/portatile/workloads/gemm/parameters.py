"""What each parameter of a configuration means: the ten of Du et al.'s generator (table 4), and those that later devices ask for."""

from __future__ import annotations

from collections.abc import Mapping

MEANINGS: Mapping[str, str] = {
    "FORM": "Kernel text: generic, cpu, gpu, or thin for few rows or columns of C.",
    "VL": "Elements of a vector.",
    "TC": "Columns of one block of a work-item.",
    "TR": "Rows of one block of a work-item.",
    "TBC": "Work-items of a group along the columns of C.",
    "TBR": "Work-items of a group along the rows of C.",
    "TCR": "Blocks of a work-item along the columns of C.",
    "TRR": "Blocks of a work-item along the rows of C.",
    "KB": "Steps of k in a stage of local memory, or of an unrolled block. In cpu without SM: in a launch, 0 for all; in thin: of its "
    "small operand in local memory.",
    "TXC": "A and B are read through images, which kernels of their own write unless VIEW_A and VIEW_B say otherwise.",
    "SM": "A and B are staged in local memory; in cpu and thin B only.",
    "UNROLL": "Steps of k that are unrolled, in gpu KB for all of a stage; in thin the vectors of A that a work-item has under way for "
    "each row.",
    "MAD": "How a multiply-add is spelled: fma, mad or a*b+c.",
    "SCALARS": "The register tile is scalars, not arrays.",
    "PAD": "Elements added to a row of local memory; in gpu only where a tile is transposed by elements.",
    "STAGES": "Tiles in local memory, filled by asynchronous copies; in thin blocks of UNROLL vectors.",
    "LANES": "Work-items of a warp along the columns of C.",
    "DOUBLE": "Operands of the next step of k that are loaded to registers during the current one: 0 neither, 1 B's to a second set and "
    "A's in place as they are used up, 2 both to a second set.",
    "KG": "Parts of a work-group that share the k of a stage; in thin its k.",
    "TAIL": "Groups that a multiprocessor is taken to hold at once: the tiles that would leave part of the device idle in the end have "
    "their k split as far as it takes. 0: whole tiles.",
    "PACK_A": "A is packed into panels by a kernel of its own.",
    "PACK_B": "B is packed into panels by a kernel of its own.",
    "TURN": "An operand that is not packed and has k fast is transposed on its way to local memory by vectors, not by elements. In cpu and "
    "thin: C is computed transposed, so that vectors lie along its columns, and A and B, rows and columns change places in all of this.",
    "KEEP": "Such an operand lies in local memory with k fast too, and work-items load vectors along k, as MMA does without being told. In "
    "cpu: both operands are read along k, from where they lie or from panels one column wide.",
    "SPLIT_K": "Groups that share the k of one tile; their sums are added by a second kernel, or with JOIN, always in the same order.",
    "RASTER": "Rows of tiles that neighbouring groups cover together; 0: all.",
    "MMA": "Matrix instructions; with LANES 8, TR 4 and TC 2 B takes the place of the instruction's A.",
    "MMA_SHAPE": "Rows, columns and steps of a matrix instruction: 8x8x4 from compute capability 8.0 on, the others from 9.0 on.",
    "LDG": "Operands are read from global memory through the read-only path; else the compiler chooses. NVIDIA only.",
    "SHUFFLE": "Neighbours read one element of A each from local memory and hand them round within the warp. NVIDIA only.",
    "JOIN": "The last of the groups that share a tile's sums to be done adds them, in the same order: no second launch. NVIDIA's GPUs "
    "and processors.",
    "SM_OF": "The operands for which SM holds in generic, AB for both; the other one is read from where it is by every work-item.",
    "TXC_OF": "The operands for which TXC holds, AB for both; the other one is read from memory or, with PACK_A or PACK_B, from panels.",
    "VIEW_A": "The image of A shows A where it lies, at no cost, instead of a copy of it.",
    "VIEW_B": "The image of B shows B where it lies, at no cost, instead of a copy of it.",
}
"""A sentence or two for each parameter. Rows and columns are those of C."""
