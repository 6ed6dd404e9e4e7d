"""The battery of OpenCL C constructs on every device: the OpenCL text itself, and its translation where a GPU runs CUDA."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from portatile import program
from portatile.device.base import Argument, Device, Image, Memory
from portatile.records import Source

sys.path.insert(0, str(Path(__file__).parents[1]))
from battery import CASES
from battery.case import In, Local, Out, Picture
from battery.check import check, compare, host


@pytest.mark.parametrize("name", CASES)
def test_construct(device: Device, name: str) -> None:
    """Every output equals what NumPy computes, and the bytes behind it are untouched."""
    case = CASES[name]
    if case.fp64 and not device.info.fp64:
        pytest.skip("no double precision")
    if case.fp16 and not device.info.fp16:
        pytest.skip("no half precision")
    if any(isinstance(arg, Picture) for arg in case.args) and not device.info.images:
        pytest.skip("no images")
    for platform, reason in case.without.items():
        if platform in device.info.platform:
            pytest.skip(reason)
    binary = program.build(Source(f"{name}.cl", case.text, tuple(case.defines.items())), device.target, None)
    module = device.load(binary)
    outputs: list[tuple[Out, Memory]] = []
    pictures: list[tuple[Picture, Image]] = []
    arguments: list[Argument] = []
    with device.queue() as queue:
        for arg in case.args:
            if isinstance(arg, Local):
                arguments.append(arg.nbytes)
            elif isinstance(arg, Picture):
                height, width, channels = arg.array.shape
                image = device.image(width, height, channels, str(arg.array.dtype))
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
            got = np.empty_like(picture.array)
            queue.download(got, image)
            compare(case, Out(picture.array if picture.expected is None else picture.expected), got)
    module.release()
