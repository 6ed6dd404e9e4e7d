"""Operands that the generic form reads through images: copies that a launch writes before the product, and views of their memory."""

from __future__ import annotations

from portatile.errors import ArgumentError
from portatile.records import Arg, DeviceInfo, Launch, Problem, Temporary, Value
from portatile.template import load
from portatile.workloads.gemm.passing import matrix, operand_shapes, real, scalar
from portatile.workloads.gemm.storage import k_fast, takes_vectors, takes_vectors_along_k


def facts(problem: Problem, device: DeviceInfo) -> dict[str, Value]:
    """Facts for the rules of the generic form: NVIDIA's instructions, sizes of images, and whether each operand can
    be viewed as an image.
    """
    width, height = image_limits(device)
    shown = {f"shown_{name}": _showable(problem, name, device) for name in "ab"}
    return {"nvidia": device.nvidia, "image_width": width, "image_height": height, **shown}


def _showable(problem: Problem, name: str, device: DeviceInfo) -> bool:
    """Whether the device has an image that is a view of A's or B's memory, with any size of pixel."""
    pixels = _extent(problem, name) * (2 if halves(problem, device) else 1)
    return device.images and pixels <= device.image_buffer_max


def _extent(problem: Problem, name: str) -> int:
    """Elements from the start of the memory to the last of A or B."""
    return problem.layout[name].extent(operand_shapes(problem)[name])


def image_limits(device: DeviceInfo) -> tuple[int, int]:
    """Width and height of the largest image with pixels of 16 bytes."""
    width, height = device.image_2d_max
    return min(width, device.image_row_max // 16) if device.image_row_max else width, height


def copied(problem: Problem, name: str, device: DeviceInfo) -> tuple[Launch, Temporary]:
    """The launch that copies A or B to an image: each row holds, for every step of k, a pixel of 16 bytes with neighbours across k.

    Raises ArgumentError if the device has no image of that size.
    """
    pixel, k, across = 16 // problem.itemsize, problem.sizes["k"], problem.sizes["m" if name == "a" else "n"]
    height = -(-across // pixel)
    widest, highest = image_limits(device)
    if k > widest or height > highest or not device.images:
        limit = f"{device.id} has images of at most {widest} x {highest}" if device.images else f"{device.id} has no images"
        raise ArgumentError(f"gemm: TXC needs an image of {k} x {height} pixels, {limit}: set TXC = False")
    image = Temporary(f"{name}_image", 16 * k * height, "image", k, height, 4, _channel(problem))
    fast = k_fast(problem, name)
    source = load(__file__, "stage.cl", {}, real=real(problem), pixel=pixel, K_FAST=fast)
    args = (
        scalar("across", across),
        scalar("k", k),
        Arg("alpha", "scalar", dtype=problem.dtype),
        *matrix(name, "in", problem.layout[name]),
        Arg(image.name, "image", "temporary"),
    )
    x, y = (k, height) if fast else (height, k)
    return Launch(source, "gemm_stage", (-(-x // 16) * 16, -(-y // 16) * 16, 1), (16, 16, 1), args), image


def pixel_elements(problem: Problem, name: str, tile: tuple[int, int] | None, unit: int) -> int:
    """Elements in a pixel of a view of A or B: 16 bytes if these are neighbours that the kernel uses together, otherwise one element.

    ``tile``: steps of k and neighbours across k that go to local memory together; without a tile, a work-item reads ``unit`` neighbours.
    """
    whole = 16 // problem.itemsize
    if tile is not None:
        along, across = tile
        fits = (takes_vectors(problem, name) and across % whole == 0) or (takes_vectors_along_k(problem, name) and along % whole == 0)
    else:
        fits = takes_vectors(problem, name) and unit % whole == 0
    return whole if fits else 1


def shown(problem: Problem, name: str, device: DeviceInfo, elements: int) -> tuple[Arg, ...]:
    """A or B as an image that is a view of its memory, with ``elements`` in a pixel; then its offset and its row stride.

    Raises ArgumentError if the device has no such image.
    """
    channels, extent = elements * problem.itemsize // 4, _extent(problem, name)
    if elements == 1 and halves(problem, device):
        channels, extent = 1, 2 * extent
    pixels, most = extent // elements, device.image_buffer_max if device.images else 0
    if pixels > most:
        limit = f"{device.id} has at most {most}" if most else f"{device.id} has none over buffers"
        raise ArgumentError(f"gemm: VIEW_{name.upper()} needs an image of {pixels} pixels, {limit}: set VIEW_{name.upper()} = False")
    view = Arg(name, "view", "in", _channel(problem), pixels, channels)
    return (view, *matrix(name, "in", problem.layout[name])[1:])


def halves(problem: Problem, device: DeviceInfo) -> bool:
    """Whether an element takes two pixels: float64 on devices that may lack images of two channels."""
    return problem.itemsize == 8 and not device.nvidia


def _channel(problem: Problem) -> str:
    """The type of a channel; float64 is read as uint32, since no image has float64."""
    return "float32" if problem.dtype == "float32" else "uint32"
