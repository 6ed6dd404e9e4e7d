"""How fast can GPUs read the host's memory at most, by NUMA node and kind of page-locking, compared with copies by the cores?

python3 bench/host_memory.py --device cuda:0 --device cuda:1

Each array is in memory of one node, of all in turn (``interleaved``), or where the system puts it (``usual``), and is locked once it is
there; ``write-combined`` is memory that the driver makes so, which only uploads read. Rates are sums over all copies that run at once.
``cores`` is what threads that copy from array to array read and write. Nothing of this is portatile's: it is the bound of its transfers.
"""

from __future__ import annotations

import ctypes
import json
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import device_links
from measure import facts, parser, print_table, rewrite, slug
from portatile import device as devices
from portatile.device.side_by_side import side_by_side
from portatile.studies.framework.links import at_once

_SET_POLICY = 238  # Linux's system call on x86-64
_DEFAULT, _BIND, _INTERLEAVE = 0, 2, 3
_WRITE_COMBINED = 7  # of cuMemHostAlloc: portable, mapped, write-combined
_THREADS = (4, 8, 16, 32, 64)


def nodes() -> list[int]:
    """The nodes of the host's memory."""
    return sorted(int(path.name[4:]) for path in Path("/sys/devices/system/node").glob("node[0-9]*"))


def topology() -> dict[str, Any]:
    """The nodes, their cores and memory, and which GPU is near which, as far as the system tells."""
    known: dict[str, Any] = {}
    for node in nodes():
        folder = Path(f"/sys/devices/system/node/node{node}")
        memory = (folder / "meminfo").read_text().splitlines()[0].split()[-2]
        known[f"node {node}"] = f"cores {(folder / 'cpulist').read_text().strip()}, {int(memory) >> 20} GiB"
    for command in (
        ["nvidia-smi", "topo", "-m"],
        ["nvidia-smi", "--query-gpu=index,pci.bus_id,pcie.link.gen.current,pcie.link.width.current", "--format=csv"],
    ):
        try:
            known[" ".join(command[:3])] = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False).stdout
        except (OSError, subprocess.TimeoutExpired):
            continue
    return known


@contextmanager
def placed(policy: int, chosen: Sequence[int]) -> Iterator[None]:
    """While this lasts, pages that this thread touches first lie on the chosen nodes."""
    call = ctypes.CDLL(None, use_errno=True).syscall
    mask = ctypes.c_ulong(sum(1 << node for node in chosen))
    if call(_SET_POLICY, policy, ctypes.byref(mask) if chosen else None, 64 if chosen else 0):
        raise OSError(ctypes.get_errno(), "the system does not let memory be placed")
    try:
        yield
    finally:
        call(_SET_POLICY, _DEFAULT, None, 0)


def links(gpus: Sequence[Any], nbytes: int, repeat: int) -> Iterator[dict[str, Any]]:
    """The rates of all links for each place of the arrays."""
    places = [("usual", _DEFAULT, [])]
    if len(nodes()) > 1:
        places += [(f"node {node}", _BIND, [node]) for node in nodes()] + [("interleaved", _INTERLEAVE, nodes())]
    for name, policy, chosen in places:
        try:
            with placed(policy, chosen):
                for row in device_links.links(gpus, nbytes, repeat):
                    yield {"memory": name, **row}
        except OSError as error:
            print(f"{name}: {error}")


def write_combined(gpus: Sequence[Any], nbytes: int, repeat: int) -> Iterator[dict[str, Any]]:
    """Uploads from memory that cores do not cache."""
    from portatile.device.cuda.driver import call, driver

    kept = []
    try:
        for gpu in gpus:
            queue = gpu.queue()
            with gpu.current():
                address = int(call(driver.cuMemHostAlloc, nbytes, _WRITE_COMBINED))
            array = np.frombuffer((ctypes.c_uint8 * nbytes).from_address(address), np.uint8)
            array[:] = 1
            kept.append((gpu, queue, gpu.allocate(nbytes), array, address))
        for chosen in [[one] for one in kept] + [kept]:
            jobs = [lambda queue=queue, memory=memory, array=array: queue.upload(memory, array) for _, queue, memory, array, _ in chosen]
            rates = [nbytes * len(jobs) / at_once(jobs) for _ in range(repeat + 1)][1:]
            yield {"memory": "write-combined", "way": "to", "devices": [one[0].info.id for one in chosen], "bytes_per_second": rates}
    finally:
        for gpu, queue, memory, _, address in kept:
            queue.release()
            memory.release()
            with gpu.current():
                driver.cuMemFreeHost(address)


def cores(nbytes: int, repeat: int) -> Iterator[dict[str, Any]]:
    """Bytes a second that threads read and write together."""
    source, target = np.ones(nbytes, np.uint8), np.zeros(nbytes, np.uint8)
    for count in _THREADS:
        job = lambda count=count: side_by_side(nbytes, count, lambda low, high: np.copyto(target[low:high], source[low:high]))  # noqa: E731
        rates = [2 * nbytes / at_once([job]) for _ in range(repeat + 1)][1:]
        yield {"memory": "cores", "way": f"{count} threads", "devices": [], "bytes_per_second": rates}


def main() -> None:
    commands = parser(__doc__, "all")
    commands.add_argument("--bytes", type=int, default=1 << 28, help="of each array; default 2^28")
    commands.add_argument("--repeat", type=int, default=5, help="samples of each; default 5")
    options = commands.parse_args()
    gpus = [one for one in devices.several(options.device or devices.EVERY) if not one.info.unified_memory]
    known = topology()
    for name, text in known.items():
        print(f"{name}:\n{text}" if "\n" in text else f"{name}: {text}")
    rows: list[dict[str, Any]] = []
    named = [{"id": one.info.id, "name": one.info.name, "driver": one.info.driver} for one in gpus]
    first = gpus[0].info.name if gpus else "processor"
    path = options.out / f"host_memory-{slug(first)}-{datetime.now(UTC):%Y%m%dT%H%M%SZ}.json"
    ways = [lambda: cores(options.bytes, options.repeat)]
    if gpus:
        ways.append(lambda: links(gpus, options.bytes, options.repeat))
    if gpus and all(one.info.backend == "cuda" for one in gpus):
        ways.append(lambda: write_combined(gpus, options.bytes, options.repeat))
    for way in ways:
        for row in way():
            rows.append(row)
            head = {"bench": "host_memory", **facts(options.commit), "devices": named, "topology": known, "bytes": options.bytes}
            rewrite(path, json.dumps({**head, "rows": rows}, indent=1) + "\n")
    print_table(
        ["memory", "way", "devices", "GB/s"],
        [[row["memory"], row["way"], " + ".join(row["devices"]), f"{median(row['bytes_per_second']) / 1e9:.1f}"] for row in rows],
    )


if __name__ == "__main__":
    main()
