"""Files of fitted constants: the recorded results that a script names, and constants written with their hashes and the command."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from measure import RESULTS


def named_results(usage: str | None) -> list[Path]:
    """The files named on the command line, in ``bench/results/`` or elsewhere; without files the script prints its ``usage`` and ends."""
    names = sys.argv[1:]
    if not names or names[0].startswith("-"):
        sys.exit(usage)
    return [path if (path := RESULTS / name).exists() else Path(name) for name in names]


def write(file: Path, script: str, results: Sequence[Path], constants: Mapping[str, Any]) -> None:
    """Write the ``constants`` that ``script`` fitted to ``results``, rounded to three digits."""
    rounded = json.loads(json.dumps(constants), parse_float=lambda text: float(f"{float(text):.3g}"))
    made = {
        "command": f"bench/{script} {' '.join(path.name for path in results)}",
        "results": {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in results},
    }
    file.write_text(json.dumps({**made, "costs": rounded}, indent=1) + "\n")
