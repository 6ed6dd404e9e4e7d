"""How long it takes to build, count, sample and walk parameter spaces, compared with Kernel Tuner's ``Searchspace`` of the same
definitions.

    python bench/spaces.py --repeats 3

Each measurement is a process of its own; what takes longer than ``--limit`` is stopped. Kernel Tuner lists a space when it is built;
portatile counts without listing, so that its whole cost of being able to draw uniformly is that of ``count``. ``list`` is everything
that is legal as a list of dictionaries, which a search does not need.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from measure import facts, parser, print_table, save, version

DRAWN = 100
LISTED = 5_000_000  # combinations that are legal, up to which they are listed

Definition = tuple[Mapping[str, Sequence[Any]], Sequence[str]]


def blocked() -> Definition:
    """The ten parameters of a classical GEMM generator, and three more: padding, unrolling and splits of k."""
    parameters = {
        **{"VL": (1, 2, 4), "TC": (1, 2, 4, 8), "TR": (1, 2, 4, 8), "TBC": (8, 16, 32), "TBR": (8, 16, 32)},
        **{"TCR": (1, 2, 3, 4), "TRR": (1, 2, 3, 4), "KB": (2, 4, 6, 8, 16, 32), "TXC": (0, 1), "SM": (0, 1)},
        **{"PAD": (0, 1, 4), "UNROLL": (1, 2, 4, 8), "SPLIT_K": (1, 2, 4, 8)},
    }
    rules = [
        "TC % VL == 0",
        "TR * TRR * TC * TCR <= 128",
        "64 <= TBR * TBC <= 512",
        "SM == 0 or KB * (TBR * TR * TRR + TBC * TC * TCR + 2 * PAD) * 4 <= 49152",
        "PAD == 0 or (SM == 1 and PAD % VL == 0)",
        "KB % UNROLL == 0",
        "TXC == 0 or VL == 4",
        "TXC == 0 or SPLIT_K == 1",
    ]
    return parameters, rules


def clblast(wide: bool) -> Definition:
    """CLBlast's Xgemm, 16 parameters; ``wide`` with so many values that there are more than 10^9 combinations."""
    tiles = (8, 16, 32, 64, 128, 256) if wide else (16, 32, 64, 128)
    groups = (4, 8, 16, 32, 64) if wide else (8, 16, 32)
    parameters = {
        **{"GEMMK": (0, 1), "MWG": tiles, "NWG": tiles, "KWG": (1, 8, 16, 32, 64) if wide else (1, 16, 32)},
        **{"MDIMC": groups, "NDIMC": groups, "MDIMA": groups, "NDIMB": groups, "KWI": (1, 2, 8, 16) if wide else (1, 2)},
        **{"VWM": (1, 2, 4, 8), "VWN": (1, 2, 4, 8), "STRM": (0, 1), "STRN": (0, 1), "SA": (0, 1), "SB": (0, 1), "KREG": (1, 2, 4, 8, 16)},
    }
    rules = [
        "KWG % KWI == 0",
        "MWG % (MDIMC * VWM) == 0",
        "MWG % (MDIMA * VWM) == 0",
        "NWG % (NDIMC * VWN) == 0",
        "NWG % (NDIMB * VWN) == 0",
        "GEMMK == 1 or (MDIMC * NDIMC) % MDIMA == 0",
        "GEMMK == 1 or (MDIMC * NDIMC) % NDIMB == 0",
        "GEMMK == 1 or KWG % max((MDIMC * NDIMC) // MDIMA, 1) == 0",
        "GEMMK == 1 or KWG % max((MDIMC * NDIMC) // NDIMB, 1) == 0",
        "GEMMK == 1 or KREG == 1",
        "GEMMK == 0 or KREG % VWN == 0",
        "GEMMK == 0 or (MDIMA == MDIMC and NDIMB == NDIMC)",
        "GEMMK == 0 or (KWG == 1 and KWI == 1)",
        "GEMMK == 0 or SA + SB + STRM + STRN == 0",
        "4 * (SA * KWG * MWG + SB * KWG * NWG) <= 49152",
        "MDIMC * NDIMC <= 1024",
    ]
    return parameters, rules


def own() -> Definition:
    """portatile's GEMM for 4096^3 on a GPU: 25 parameters, three forms of which each uses its own."""
    from portatile import workloads
    from portatile.store import shipped

    workload = workloads.get("gemm")
    device = next(trial.device for trial in shipped("gemm") if trial.device.kind == "gpu")
    space = workload.space(workload.problem({"m": 4096, "n": 4096, "k": 4096}, "float32"), device)
    facts_of = {name: value for name, value in space.facts.items() if any(name in rule.reads for rule in space.constraints)}
    fixed = {name: (value,) for name, value in facts_of.items() if name not in space.parameters}
    return {**fixed, **space.parameters}, [rule.text for rule in space.constraints]


SPACES: dict[str, Callable[[], Definition]] = {
    "ten parameters and three": blocked,
    "CLBlast Xgemm": lambda: clblast(False),
    "CLBlast Xgemm, 10^9": lambda: clblast(True),
    "portatile GEMM": own,
}


def timed(rows: dict[str, Any], name: str, work: Callable[[], Any]) -> Any:
    """The result of some work, its seconds kept and told at once."""
    started = time.perf_counter()
    found = work()
    rows[name] = time.perf_counter() - started
    rows["peak_mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps(rows), flush=True)
    return found


def portatile(definition: Definition) -> None:
    """What takes how long here."""
    import numpy as np

    from portatile.space import ParameterSpace

    rows: dict[str, Any] = {}
    space = timed(rows, "build", lambda: ParameterSpace(*definition))
    rows["legal"] = timed(rows, "count", space.count)
    rng = np.random.default_rng(0)
    drawn = timed(rows, "draw", lambda: [space.sample(rng) for _ in range(DRAWN)])
    rows["neighbours_found"] = sum(map(len, timed(rows, "neighbours", lambda: [space.neighbours(config) for config in drawn])))
    print(json.dumps(rows), flush=True)
    if rows["legal"] <= LISTED:
        assert len(timed(rows, "list", lambda: list(space))) == rows["legal"]


def kernel_tuner(definition: Definition) -> None:
    """The same in Kernel Tuner."""
    from kernel_tuner.searchspace import Searchspace

    parameters, rules = definition
    rows: dict[str, Any] = {}
    space = timed(rows, "build", lambda: Searchspace({name: list(values) for name, values in parameters.items()}, list(rules), 1 << 30))
    rows["legal"] = timed(rows, "count", lambda: space.size)
    drawn = timed(rows, "draw", lambda: space.get_random_sample(DRAWN))
    found = timed(rows, "neighbours", lambda: [space.get_neighbors(config, "Hamming") for config in drawn])
    rows["neighbours_found"] = sum(map(len, found))
    print(json.dumps(rows), flush=True)


def measured(tuner: str, name: str, limit: float) -> dict[str, Any]:
    """One child's figures; ``stopped`` where it was stopped or gave up."""
    command = [sys.executable, str(Path(__file__).resolve()), "--child", tuner, name]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            out, log = process.communicate(timeout=limit)
            stopped = "" if process.returncode == 0 else (log.strip().splitlines() or ["it failed"])[-1][:200]
        except subprocess.TimeoutExpired:
            process.kill()
            out, _ = process.communicate()
            stopped = f"more than {limit:g} s"
    lines = out.strip().splitlines()
    return {**(json.loads(lines[-1]) if lines else {}), "stopped": stopped}


def spell(runs: Sequence[Mapping[str, Any]], name: str) -> str:
    """The median of the repetitions."""
    known = [run[name] for run in runs if name in run]
    if not known:
        return "-"
    value = median(known)
    return f"{value:.0f}" if name == "peak_mib" else f"{value:.3g}"


def parse() -> argparse.Namespace:
    commands = parser(__doc__, device="")
    commands.add_argument("--repeats", type=int, default=3)
    commands.add_argument("--limit", type=float, default=120.0, help="seconds of one measurement")
    commands.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    return commands.parse_args()


def main() -> None:
    """Measure each space by turns, print the table, write everything."""
    options = parse()
    if options.child:
        tuner, name = options.child
        {"portatile": portatile, "kernel_tuner": kernel_tuner}[tuner](SPACES[name]())
        return
    tuners = ["portatile", *(["kernel_tuner"] if version("kernel_tuner") else [])]
    if len(tuners) == 1:
        print("Kernel Tuner is not installed: pip install kernel_tuner")
    rows, document = [], []
    for name, definition in SPACES.items():
        parameters, rules = definition()
        raw = 1
        for values in parameters.values():
            raw *= len(values)
        found: dict[str, list[dict[str, Any]]] = {tuner: [] for tuner in tuners}
        for _ in range(options.repeats):
            for tuner in tuners:
                if not any(run["stopped"] for run in found[tuner]):
                    found[tuner].append(measured(tuner, name, options.limit))
        document.append({"space": name, "parameters": len(parameters), "rules": len(rules), "combinations": raw, "runs": found})
        for tuner in tuners:
            cells = [spell(found[tuner], column) for column in ("build", "count", "draw", "neighbours", "list", "peak_mib")]
            legal = next((str(run["legal"]) for run in found[tuner] if "legal" in run), "-")
            stopped = next((run["stopped"] for run in found[tuner] if run["stopped"]), "")
            rows.append([f"{name}: {tuner}", f"{raw:.2g}", legal, *cells, stopped])
        counts = {run["legal"] for runs in found.values() for run in runs if "legal" in run}
        assert len(counts) <= 1, f"{name}: the two disagree: {counts}"
    columns = ["space", "combinations", "legal", "build s", "count s", f"draw {DRAWN} s", "neighbours s", "list s", "peak MiB", "stopped"]
    print_table(columns, rows)
    result = {"bench": "spaces", **facts(options.commit), "kernel_tuner": version("kernel_tuner"), "spaces": document}
    print(f"\nwritten to {save('spaces', result, options.out)}")


if __name__ == "__main__":
    main()
