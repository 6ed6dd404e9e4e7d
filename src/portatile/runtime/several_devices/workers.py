"""One device at work on a problem that several devices share: it takes piece after piece, wherever the operands lie."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from portatile import workloads
from portatile.arguments.matrices import Matrix
from portatile.runtime.in_parts import slab_pipeline, tasks
from portatile.runtime.one_device.engine import Engine, Prepared
from portatile.runtime.several_devices import forecast
from portatile.runtime.several_devices.pieces import Pieces
from portatile.runtime.several_devices.remote_parts import RemoteParts, described, layout_of
from portatile.runtime.several_devices.splits import Share
from portatile.runtime.several_devices.triangles import TriangleParts
from portatile.workload import Cut

Start = Callable[[Engine, Prepared, Mapping[str, Matrix], Mapping[str, float]], None]
"""A function that computes a prepared problem on host arrays and returns when the output is complete."""


@dataclass
class Worker:
    """One device that computes pieces of the task, in the configuration that is best there."""

    engine: Engine
    task: tasks.Task
    cut: Cut
    most: int
    share: Share

    @property
    def where(self) -> str:
        """The place of the operands, as it affects the device's rate."""
        return forecast.where(self.task.matrices, self.engine.device)

    def run(self, pieces: Pieces, start: Start) -> None:
        """Take piece after piece until nothing is left. Raises the device's exception, after giving back unfinished pieces."""
        if self.task.matrices[self.task.output].on_device:
            with RemoteParts(self.engine, self.task, self.cut) as parts:
                parts.run(pieces, self.most, lambda low, high, seconds: self._count(pieces, (low, high), seconds))
        elif not self.cut.pieces:
            with TriangleParts(self.engine, self.task, start) as triangle:
                triangle.run(pieces, self.most, lambda low, high, seconds: self._count(pieces, (low, high), seconds))
        elif self.engine.device.info.unified_memory:
            self._in_place(pieces, start)
        else:
            self._through_slabs(pieces)

    def _in_place(self, pieces: Pieces, start: Start) -> None:
        """Compute pieces whose operands the device accesses in place."""
        while (piece := pieces.take(self.share.device, self.most)) is not None:
            try:
                part = tasks.part(self.task, self.cut, *piece)
                output = part.matrices[part.output]
                kept = np.array(output.array) if output.read else None  # a failing device may have overwritten a part of it
                matrices = part.matrices if kept is None else {**part.matrices, part.output: output._replace(array=kept)}
                matrices = {name: described(stored) for name, stored in matrices.items()}
                layout = {name: layout_of(stored, part.problem.layout[name]) for name, stored in matrices.items()}
                problem = workloads.get(part.problem.workload).problem(part.problem.sizes, part.problem.dtype, part.problem.options, layout)
                prepared = self.engine.prepare(problem)
                began = time.perf_counter()
                start(self.engine, prepared, matrices, part.scalars)
                if kept is not None:
                    output.array[...] = kept
            except BaseException:
                pieces.give_back(*piece)
                raise
            self._count(pieces, piece, time.perf_counter() - began)

    def _through_slabs(self, pieces: Pieces) -> None:
        """Compute pieces whose operands are transferred over the link, two at a time.

        The pipeline holds the engine's lock, so it must not wait for another device: that device's thread may be waiting for its own
        engine's lock, whose holder waits for this one.
        """
        taken: list[tuple[int, int]] = []

        def ranges() -> Iterator[tuple[int, int] | None]:
            """The pieces as they become free; None while pieces are in progress and no piece is free, so that a result is collected."""
            yield taken[0]
            while (piece := pieces.take(self.share.device, self.most, wait=False)) is not None or taken:
                if piece is not None:
                    taken.append(piece)
                yield piece

        def collected(low: int, high: int, seconds: float) -> None:
            taken.remove((low, high))
            self._count(pieces, (low, high), seconds)

        try:
            while (first := pieces.take(self.share.device, self.most)) is not None:
                taken.append(first)
                slab_pipeline.pipeline(self.engine, self.task, self.cut, self.most, ranges(), collected)
        except BaseException:
            for piece in taken:
                pieces.give_back(*piece)
            raise

    def _count(self, pieces: Pieces, piece: tuple[int, int], seconds: float) -> None:
        steps = piece[1] - piece[0]
        pieces.done(self.share.device, steps, seconds, forecast.is_first(self.engine.device, self.task.whole, self.where))
        self.share.steps += steps
        self.share.pieces += 1
        self.share.seconds += seconds
