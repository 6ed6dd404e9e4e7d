"""Operands that are read through images: copies that a kernel writes before, and images that show the operand where it lies."""

from __future__ import annotations

from portatile.errors import ArgumentError
from portatile.records import Arg, DeviceInfo, Problem, Temporary, Value
from portatile.workloads.gemm.point import Point
from portatile.workloads.gemm.storage import takes_vectors, takes_vectors_along_k


def image_limits(device: DeviceInfo) -> tuple[int, int]:
    """Width and height of the largest image whose pixels have 16 bytes."""
    width, height = device.image_2d_max
    return min(width, device.image_row_max // 16) if device.image_row_max else width, height


def written(problem: Problem, name: str, device: DeviceInfo) -> Temporary:
    """The image that A or B is copied to: a row has neighbours across k, as many as a pixel of 16 bytes holds, for every step of k.

    Raises ArgumentError where the device has none so large.
    """
    pixel, k = 16 // problem.itemsize, problem.sizes["k"]
    height = -(-problem.sizes["m" if name == "a" else "n"] // pixel)
    widest, highest = image_limits(device)
    if k > widest or height > highest or not device.images:
        limit = f"{device.id} has images of at most {widest} x {highest}" if device.images else f"{device.id} has no images"
        raise ArgumentError(f"gemm: TXC needs an image of {k} x {height} pixels, {limit}: set TXC = False")
    return Temporary(f"{name}_image", 16 * k * height, "image", k, height, 4, _channel(problem))


def sources(problem: Problem, point: Point, device: DeviceInfo) -> dict[str, Value]:
    """Where generic.cl takes its operands from, and what the pixels of images are that show memory."""
    facts: dict[str, Value] = {"HALVES": _halves(problem, device)}
    for name in "ab":
        upper = name.upper()
        facts |= {f"{upper}_FROM": point.source(name), f"{upper}_LOCAL": point.through_local(name)}
        facts[f"{upper}_PIXEL"] = pixel_elements(problem, point, name)
    return facts


def pixel_elements(problem: Problem, point: Point, name: str) -> int:
    """Elements in a pixel of an image that shows A or B: 16 bytes where those are neighbours that the kernel wants together, else 1."""
    whole = 16 // problem.itemsize
    if point.through_local(name):
        along, across = point.KB, point.rows if name == "a" else point.columns
        fits = (takes_vectors(problem, name) and across % whole == 0) or (takes_vectors_along_k(problem, name) and along % whole == 0)
    else:
        fits = takes_vectors(problem, name) and (point.TR if name == "a" else point.VL) % whole == 0
    return whole if fits else 1


def shown(problem: Problem, point: Point, name: str, device: DeviceInfo, extent: int) -> Arg:
    """A or B, of which ``extent`` elements are memory's from its first to the operand's last, as an image that shows it where it lies.

    Raises ArgumentError where the device has no such image.
    """
    elements = pixel_elements(problem, point, name)
    channels = elements * problem.itemsize // 4
    if elements == 1 and _halves(problem, device):
        channels, extent = 1, 2 * extent
    pixels, most = extent // elements, device.image_buffer_max if device.images else 0
    if pixels > most:
        limit = f"{device.id} has at most {most}" if most else f"{device.id} has none over buffers"
        raise ArgumentError(f"gemm: VIEW_{name.upper()} needs an image of {pixels} pixels, {limit}: set VIEW_{name.upper()} = False")
    return Arg(name, "view", "in", _channel(problem), pixels, channels)


def view_pixels(problem: Problem, extent: int, device: DeviceInfo) -> int:
    """Pixels of an image that shows A or B, at most."""
    return extent * (2 if _halves(problem, device) else 1)


def _halves(problem: Problem, device: DeviceInfo) -> bool:
    """Whether an element is two pixels: a float64 where no images of two channels are certain to be there."""
    return problem.itemsize == 8 and not device.nvidia


def _channel(problem: Problem) -> str:
    """The type of a channel: no image has float64."""
    return "float32" if problem.dtype == "float32" else "uint32"
