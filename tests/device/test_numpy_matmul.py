"""NumPy's own tests of ``matmul``, from the installed wheel, against ``portatile.matmul``; docs/use/numpy.md lists what differs and why."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import portatile
from portatile.arguments.promotion import multiplied_in

upstream: Any = pytest.importorskip(
    "numpy._core.tests.test_multiarray", reason="this NumPy comes without its tests, or is older than 2", exc_type=ImportError
)
pytestmark = pytest.mark.unoptimised

_PAGE = Path(__file__).parents[2] / "docs" / "use" / "numpy.md"
_ROWS = [row.split("|")[1:-1] for row in _PAGE.read_text().splitlines() if row.startswith("| `test_")]
DIFFERENCES = {name: why.strip() for tests, _, why in _ROWS for name in re.findall(r"`(test_\w+)`", tests)}
_TYPES = "".join(code for code in upstream.MatmulCommon.types if multiplied_in(np.dtype(code), np.dtype(code)) is not None)


class _Numpy(ModuleType):
    """NumPy with portatile's ``matmul``."""

    matmul = staticmethod(portatile.matmul)

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)


@pytest.fixture(autouse=True)
def _replaced(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upstream, "np", _Numpy("numpy"))
    name, given = request.node.originalname, getattr(request.node, "callspec", None)
    if given is not None and "dtype" in given.params and np.dtype(given.params["dtype"]).char not in _TYPES:
        pytest.skip("a dtype that is not multiplied; see docs/use/numpy.md")
    if name in DIFFERENCES and not name.startswith("test_the_"):
        request.applymarker(pytest.mark.xfail(strict=True, reason=DIFFERENCES[name]))


class TestMatmul(upstream.TestMatmul):  # type: ignore[misc]
    """Of the dtypes that are multiplied."""

    matmul = staticmethod(portatile.matmul)
    types = _TYPES


test_matmul_axes = upstream.test_matmul_axes


def test_the_page_names_tests_that_there_are() -> None:
    there = {*dir(upstream.TestMatmul), "test_matmul_axes"}
    assert set(DIFFERENCES) - there == set()
    assert len(DIFFERENCES) < len([name for name in there if name.startswith("test_")])


def test_the_dtypes_that_differ_are_few() -> None:
    assert set("?bhilqBHILQfd") <= set(_TYPES)


@pytest.mark.parametrize("shapes", upstream.TestMatmulInplace.SHAPES.values(), ids=upstream.TestMatmulInplace.SHAPES)
def test_the_shapes_of_products_in_place(shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    """As ``a @= b``: the result over the first operand."""
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-9, 9, shape).astype(np.float64) for shape in shapes)
    expected, was = a.copy(), a.copy()
    try:
        np.matmul(a, b, out=expected)
    except ValueError:
        with pytest.raises(ValueError, match="must have shape"):
            portatile.matmul(a, b, out=a)
        np.testing.assert_array_equal(a, was)
    else:
        assert portatile.matmul(a, b, out=a) is a
        np.testing.assert_array_equal(a, expected)
