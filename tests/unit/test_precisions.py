"""What a product's precision comes to: the workload that computes it, what is said of it, what is refused."""

import numpy as np
import pytest

import portatile
from portatile.errors import ArgumentError
from portatile.workloads import precisions


def test_a_precision_chooses_what_computes():
    assert precisions.computed("", "gemm", "float32") == ("gemm", "float32", "")
    assert precisions.computed("tf32", "gemm_batched", "float32") == ("gemm_batched", "tfloat32", "")
    assert precisions.computed("emulated", "trmm", "float32") == ("trmm", "float32", "")
    workload, dtype, note = precisions.computed("emulated", "gemm", "float16")
    assert (workload, dtype) == ("gemm", "float16")
    assert "native" in note
    assert precisions.computed("reproducible", "gemm", "int8").workload == "gemm"


def test_what_cannot_be_as_asked_is_refused():
    with pytest.raises(ArgumentError, match="tf32"):
        precisions.computed("tf32", "gemm", "float64")
    with pytest.raises(ArgumentError, match="reproducible"):
        precisions.computed("reproducible", "gemm", "float16")
    with pytest.raises(ArgumentError, match="'tf32', '3m', 'emulated' or 'reproducible'"):
        portatile.matmul(np.ones((2, 2)), np.ones((2, 2)), precision="exact")  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="no precision"):
        portatile.explain("trmm", m=8, n=8, precision="emulated")
    with pytest.raises(ArgumentError, match="bias"):
        portatile.gemm(np.ones((2, 2)), np.ones((2, 2)), activation="relu", precision="reproducible")


def test_explain_says_where_the_native_product_runs():
    assert "native product" in portatile.explain("gemm", dtype="float16", m=8, n=8, k=8, precision="emulated").explanation


def test_explain_says_what_residues_cost_without_units():
    assert "takes longer than the native" in portatile.explain("gemm", dtype="float64", m=8, n=8, k=8, precision="emulated").explanation
