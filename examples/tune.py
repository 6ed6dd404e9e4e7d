"""Tune a matrix product for a few seconds; from then on every process on this device uses what was found."""

import portatile

result = portatile.tune("gemm", m=200, n=200, k=200, budget="3s")
print(f"{result.default.comparable / result.best.comparable:.2f} times as fast as the default after {len(result.trials)} trials")
print(portatile.explain("gemm", m=200, n=200, k=200).explanation)
