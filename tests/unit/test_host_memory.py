"""Searches whose operands this machine cannot hold: an error that says so, instead of the system's killing the process."""

from __future__ import annotations

import pytest

from portatile import workloads
from portatile.cli import main
from portatile.errors import ArgumentError
from portatile.tuning.search import host_memory


@pytest.mark.parametrize("sizes", [("65536", "65536", "1"), ("3000000000", "1", "1")])
def test_operands_that_do_not_fit(sizes: tuple[str, str, str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_memory, "available", lambda: 8 << 30)
    m, n, k = sizes
    assert main(["tune", "gemm", "-m", m, "-n", n, "-k", k, "--budget", "1"]) == 2
    assert "8.0 GiB are free" in " ".join(capsys.readouterr().err.split())


def test_what_fits_and_what_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    gemm = workloads.get("gemm")
    problem = gemm.problem({"m": 1000, "n": 1000, "k": 1000})
    needed = 3 * 1000 * 1000 * 8 + 8 * 1000 * 1000
    for free, fits in [(needed, True), (needed - 1, False), (None, True)]:
        monkeypatch.setattr(host_memory, "available", lambda free=free: free)
        if fits:
            host_memory.check(gemm, problem)
        else:
            with pytest.raises(ArgumentError, match="choose smaller sizes"):
                host_memory.check(gemm, problem)


def test_the_system_says_what_is_free() -> None:
    free = host_memory.available()
    assert free is None or 0 < free < 1 << 50
