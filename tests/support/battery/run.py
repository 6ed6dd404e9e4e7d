"""One case of the battery on one device: what keeps it from running there, and whether it computes what is expected."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from portatile import program
from portatile.device.base import Argument, Device, Image, Memory
from portatile.records import Binary, Source
from support.battery.case import Case, In, Local, Out, Picture
from support.battery.check import check, compare, host


def obstacle(case: Case, device: Device) -> str | None:
    """Why the case is not asked of the device, or None."""
    if case.fp64 and not device.info.fp64:
        return "no double precision"
    if case.fp16 and not device.info.fp16:
        return "no half precision"
    if any(isinstance(arg, Picture) for arg in case.args) and not device.info.images:
        return "no images"
    return next((reason for platform, reason in case.without.items() if platform in f"{device.info.backend}: {device.info.platform}"), None)


def compiled(device: Device, source: Source) -> Binary:
    """As ``portatile`` compiles, without its cache."""
    return program.build(source, device.target, None)


def run(case: Case, device: Device, build: Callable[[Device, Source], Binary] = compiled) -> None:
    """Fail unless every output equals what NumPy computes, and the bytes behind it are untouched."""
    binary = build(device, case.source)
    outputs: list[tuple[Out, Memory]] = []
    pictures: list[tuple[Picture, Image]] = []
    arguments: list[Argument] = []
    with device.load(binary) as module, device.queue() as queue:
        for arg in case.args:
            if isinstance(arg, Local):
                arguments.append(arg.nbytes)
            elif isinstance(arg, Picture):
                image = device.image_of(arg.form)
                queue.upload(image, arg.array)
                arguments.append(image)
                pictures.append((arg, image))
            elif isinstance(arg, In | Out):
                raw = host(arg)
                memory = device.allocate(raw.nbytes)
                queue.upload(memory, raw)
                arguments.append(memory)
                if isinstance(arg, Out):
                    outputs.append((arg, memory))
            else:
                arguments.append(arg)
        queue.launch(module.kernel(case.kernel), case.size, case.group, arguments)
        for out, memory in outputs:
            raw = np.empty(memory.nbytes, np.uint8)
            queue.download(raw, memory)
            check(case, out, raw)
        for picture, image in pictures:
            result = np.empty_like(picture.array)
            queue.download(result, image)
            compare(case, Out(picture.array if picture.expected is None else picture.expected), result)
