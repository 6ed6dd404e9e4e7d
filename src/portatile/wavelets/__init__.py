"""BigDFT's wavelet filters by name, and its operations with them on one- and three-dimensional grids."""

from portatile.wavelets.filters import KINETIC, MAGICFILTER, SCALING, WAVELET, Filter
from portatile.wavelets.orbitals import apply_potential, density, kinetic, potential_energy
from portatile.wavelets.transforms import analysis, analysis3d, magicfilter, magicfilter3d, synthesis, synthesis3d

__all__ = [
    "KINETIC",
    "MAGICFILTER",
    "SCALING",
    "WAVELET",
    "Filter",
    "analysis",
    "analysis3d",
    "apply_potential",
    "density",
    "kinetic",
    "magicfilter",
    "magicfilter3d",
    "potential_energy",
    "synthesis",
    "synthesis3d",
]
