"""Random calls of every routine on arrays of other libraries, from several threads and streams, over operands, and captured into graphs."""

from __future__ import annotations

import random
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from attack import AttackError, Place, calls, libraries, problems
from attack.libraries import Library
from portatile import device as devices
from portatile.errors import ArgumentError

_EACH = 6  # problems of a form
_LARGEST = (9, 96, 96, 300)
_THREADS = 4
_HALVES = ("syrk", "herk", "syr2k", "her2k")  # whose output keeps a triangle
_RETURNED = ("coulomb_potential", *_HALVES, "gemm", "matmul", "matmul of few bits", "symm", "hemm", "trmm", "trsm")  # what takes out=


def attempt(rng: random.Random, place: Place) -> Counter[str]:
    """Problems of one form, all as one of the ways to call it."""
    device = devices.get(place.device).info.id
    library = rng.choice(libraries.there(device))(device)
    try:
        form = calls.draw(rng, device, rng.choice(_LARGEST), _EACH, library=library)
        [block[number] for block in form.inputs for number in range(_EACH)]
        [_output(form, number) for number in range(_EACH)]
    except (AttributeError, TypeError, ValueError) as error:
        return Counter({f"{library.name} has no such arrays: {error}"[:60]: 1})
    way = rng.choice((_one_by_one, _by_threads, _over_an_operand, _new_result, _captured))
    library.wait()
    before = [block.raw.copy() for block in form.inputs]
    try:
        with library.place(rng):
            target = way(form, library)
            library.wait()
    except ArgumentError as error:
        library.wait()
        library.back()
        _untouched(form, before)
        return Counter({f"{library.name} {form.name} refused: {error}"[:120]: 1})
    if target is not None:
        library.back()
        problems.check_results(form, target, before)
    return Counter({f"{library.name} {way.__name__.strip('_')}": len(form)})


def _output(form: calls.Problems, number: int) -> Any:
    """An array of the library for a routine that takes ``out=``; of another the result is kept on the host."""
    return form.outputs[number] if form.name in _RETURNED else form.outputs.views[number]


def _run(form: calls.Problems, number: int, to: Any) -> None:
    result = form.run(number, to)
    if form.name in _RETURNED and result is not to:
        raise AttackError(f"{form.name} was given out and returned another array, a {type(result).__name__}")


def _one_by_one(form: calls.Problems, library: Library) -> Any:
    for number in range(len(form)):
        _run(form, number, _output(form, number))
    return form.outputs


def _by_threads(form: calls.Problems, library: Library) -> Any:
    with ThreadPoolExecutor(_THREADS) as threads:
        list(threads.map(lambda number: _run(form, number, _output(form, number)), range(len(form))))
    return form.outputs


def _over_an_operand(form: calls.Problems, library: Library) -> Any:
    """An output that is an operand at the same time: refused, or right."""
    fitting = [one for one in form.inputs if (one.views.shape, one.views.dtype) == (form.outputs.views.shape, form.outputs.views.dtype)]
    if not fitting or form.name not in _RETURNED or form.name in _HALVES:
        return _one_by_one(form, library)
    for number in range(len(form)):
        _run(form, number, fitting[-1][number])
    return fitting[-1]


def _new_result(form: calls.Problems, library: Library) -> Any:
    if form.name not in _RETURNED or form.name in _HALVES:
        return _one_by_one(form, library)
    results = [form.run(number, None) for number in range(len(form))]
    library.wait()
    library.back()
    for number, result in enumerate(results):
        host = library.numpy(result)
        view = form.outputs.views[number]
        if (host.shape, host.dtype) != (view.shape, view.dtype):
            raise AttackError(f"the result has shape {host.shape} and type {host.dtype}, not {view.shape} and {view.dtype}")
        view[...] = host
    library.renew()
    return form.outputs


def _captured(form: calls.Problems, library: Library) -> Any:
    """Called once, captured with PyTorch, and replayed into outputs that are as before."""
    if library.name != "Torch" or not library.device.startswith("cuda") or form.name not in _RETURNED:
        return _one_by_one(form, library)
    cuda = sys.modules["torch"].cuda
    for number in range(2):
        _run(form, number, _output(form, number))
    library.wait()
    library.renew()
    graph = cuda.CUDAGraph()
    with cuda.graph(graph):
        for number in range(len(form)):
            _run(form, number, _output(form, number))
    graph.replay()
    return form.outputs


def _untouched(form: calls.Problems, before: list[Any]) -> None:
    if any((block.raw != was).any() for block, was in zip(form.inputs, before, strict=True)):
        raise AttackError(f"{form.name}: a call that was refused has written an operand")
