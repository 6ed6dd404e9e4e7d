"""The routines as PyTorch operators: ``torch.compile`` traces them, autograd differentiates them, ``torch.library.opcheck`` accepts them.

Import this module to register the operators ``gemm``, ``trsm``, ``convolve1d`` and ``convolve3d_separable`` in ``torch.ops.portatile``; the
functions here call them. Tensors are float32 or float64; for products and ``trsm`` they may be complex. CUDA tensors are computed in place,
on PyTorch's current stream; CPU tensors are computed from their own memory, by the device that ``device`` selects.
"""

from portatile.torch.filters import convolve1d, convolve3d_separable
from portatile.torch.products import gemm, matmul
from portatile.torch.solves import trsm

__all__ = ["convolve1d", "convolve3d_separable", "gemm", "matmul", "trsm"]
