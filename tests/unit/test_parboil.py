"""Parboil's MRI files: what is written is read, bytes are where the format has them, and other files are refused."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest

from portatile.errors import ArgumentError
from portatile.formats.parboil import MriData, read_image, read_mri, write_image, write_mri

DATA = Path(__file__).parents[1] / "data" / "parboil"


def data(samples: int, voxels: int, d: bool) -> MriData:
    rng = np.random.default_rng(5)
    k = [rng.random(samples, np.float32) for _ in range(7)]
    r = [rng.random(voxels, np.float32) for _ in range(3)]
    return MriData(*k[:3], *r, *k[3:5], *(k[5:] if d else (None, None)))


@pytest.mark.parametrize(("samples", "voxels", "d"), [(3, 5, False), (3, 5, True), (0, 4, False), (4, 0, True), (1, 1, True)])
def test_an_input_survives(tmp_path: Path, samples: int, voxels: int, d: bool) -> None:
    before = data(samples, voxels, d)
    write_mri(tmp_path / "mri.bin", before)
    after = read_mri(tmp_path / "mri.bin")
    for field in fields(MriData):
        one, other = getattr(before, field.name), getattr(after, field.name)
        assert (one is None) == (other is None)
        assert one is None or (other.dtype == np.float32 and np.array_equal(one, other))


def test_the_order_of_the_vectors(tmp_path: Path) -> None:
    vectors = [np.full(2 if name not in "xyz" else 3, n, np.float32) for n, name in enumerate(field.name for field in fields(MriData))]
    write_mri(tmp_path / "mri.bin", MriData(*vectors))
    raw = (tmp_path / "mri.bin").read_bytes()
    assert raw[:8] == bytes((2, 0, 0, 0, 3, 0, 0, 0))
    assert np.frombuffer(raw, "<f4", offset=8).tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 3, 4, 4, 4, 5, 5, 5, 6, 6, 7, 7, 8, 8, 9, 9]


def test_an_output_survives(tmp_path: Path) -> None:
    real, imaginary = np.arange(5, dtype=np.float32), -np.arange(5, dtype=np.float32)
    write_image(tmp_path / "image.out", real, imaginary)
    result = read_image(tmp_path / "image.out")
    assert np.array_equal(result[0], real)
    assert np.array_equal(result[1], imaginary)


def test_parboils_own_files_are_understood_and_rewritten_byte_for_byte(tmp_path: Path) -> None:
    result = read_mri(DATA / "32_32_32_dataset.bin")
    assert (len(result.kx), len(result.x)) == (3072, 32**3)
    assert result.d_r is None
    write_mri(tmp_path / "again.bin", result)
    assert (tmp_path / "again.bin").read_bytes() == (DATA / "32_32_32_dataset.bin").read_bytes()
    real, imaginary = read_image(DATA / "32_32_32_dataset.out")
    assert len(real) == 32**3
    assert abs(float(max(np.abs(real).max(), np.abs(imaginary).max())) - 955) < 1
    write_image(tmp_path / "again.out", real, imaginary)
    assert (tmp_path / "again.out").read_bytes() == (DATA / "32_32_32_dataset.out").read_bytes()


@pytest.mark.parametrize("raw", [b"", b"\1\0\0\0", bytes((1, 0, 0, 0, 1, 0, 0, 0)) + bytes(4 * 7), b"\xff" * 64, bytes(9)])
def test_other_files_are_refused(tmp_path: Path, raw: bytes) -> None:
    (tmp_path / "other").write_bytes(raw)
    with pytest.raises(ArgumentError, match="not an input of Parboil"):
        read_mri(tmp_path / "other")
    with pytest.raises(ArgumentError, match="not an output of Parboil"):
        read_image(tmp_path / "other")


def test_vectors_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    right = data(3, 5, True)
    for wrong in (
        replace(right, ky=right.x),
        replace(right, d_i=right.x),
        replace(right, z=right.kx),
        replace(right, phi_r=np.ones((3, 1))),
    ):
        with pytest.raises(ArgumentError, match="shape"):
            write_mri(tmp_path / "mri.bin", wrong)
    with pytest.raises(ArgumentError, match="both"):
        write_mri(tmp_path / "mri.bin", replace(right, d_i=None))
    with pytest.raises(ArgumentError, match="same length"):
        write_image(tmp_path / "image.out", np.ones(3, np.float32), np.ones(4, np.float32))
    assert list(tmp_path.iterdir()) == []
