"""Launches as a CUDA graph: the driver receives them once, and one call runs all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple
from weakref import ref

from portatile.device.cuda.context import CudaContext
from portatile.device.cuda.driver import call, driver, running
from portatile.device.cuda.kernel import CudaKernel

_MOST = 256  # graphs of a device, each of which takes some of its memory


class GraphNode(NamedTuple):
    """A launch: blocks and threads in each dimension, bytes of dynamic local memory, and the address of the array of parameter pointers."""

    kernel: CudaKernel
    grid: tuple[int, ...]
    dynamic: int
    parameters: int

    def described(self) -> Any:
        """The node as the driver's record of a kernel node."""
        made = driver.CUDA_KERNEL_NODE_PARAMS()
        made.func, made.sharedMemBytes, made.kernelParams = self.kernel.function, self.dynamic, self.parameters
        made.gridDimX, made.gridDimY, made.gridDimZ, made.blockDimX, made.blockDimY, made.blockDimZ = self.grid
        return made


def may_keep_another(device: CudaContext) -> bool:
    """Whether a device may have one more graph. If it has ``_MOST``, the oldest is released if it is no longer used.

    A graph that was launched since the last such call is kept, counts as the newest from then on, and the answer is no. So if more graphs
    than ``_MOST`` are used by turns, the existing ones stay instead of being released just before their next use.
    """
    graphs = device.graphs
    while len(graphs) >= _MOST:
        oldest = graphs.popleft()()
        if oldest is None or oldest.executable is None:
            continue
        if oldest.launched:
            oldest.launched = False
            graphs.append(ref(oldest))
            return False
        oldest.release()
    return True


class LaunchGraph:
    """Launches one after another, with the arguments that their parameter blocks held when the graph was made.

    Two runs of a graph never overlap: the driver orders them, on whatever streams. ``executable`` is what the driver launches, None after
    ``release``. Callers ask ``may_keep_another`` before they make a graph, and set ``launched`` when they launch it. Not thread-safe.
    """

    def __init__(self, device: CudaContext, nodes: Sequence[GraphNode]) -> None:
        self._device, self._generation = device, device.generation
        self._kernels = tuple(node.kernel for node in nodes)  # keeps the kernels loaded
        self._graph: Any = None
        self.executable: Any = None
        self.launched = False
        with device.relaxed():
            self._graph = call(driver.cuGraphCreate, 0)
            before: list[Any] = []
            for node in nodes:
                before = [call(driver.cuGraphAddKernelNode, self._graph, before, len(before), node.described())]
            self.executable = call(driver.cuGraphInstantiate, self._graph, 0)
        device.graphs.append(ref(self))

    def release(self) -> None:
        """Release the graph; a run in progress continues to its end."""
        executable, graph, self.executable, self._graph = self.executable, self._graph, None, None
        if graph is not None and self._generation == self._device.generation:
            with self._device.relaxed():
                if executable is not None:
                    driver.cuGraphExecDestroy(executable)
                driver.cuGraphDestroy(graph)

    def __del__(self) -> None:
        if running and getattr(self, "_graph", None) is not None:
            self.release()
