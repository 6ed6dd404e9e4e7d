"""Other programs' names for the blocking of a product: CLBlast's two kernels, which Kernel Tuner's gemm recordings have too.

CLBlast's matrices are column-major: its M runs along the rows of C in memory, which here are the columns.
"""

from __future__ import annotations

from collections.abc import Mapping

from portatile.records import Config, Value

_NEEDED = ("MWG", "NWG", "KWG", "MDIMC", "NDIMC")


def translated(config: Config) -> Mapping[str, Value]:
    """A configuration in CLBlast's parameters, in those of this workload; empty if it is not one of CLBlast's.

    Examples:
        >>> translated({"MWG": 64, "NWG": 128, "KWG": 32, "MDIMC": 16, "NDIMC": 16, "KWI": 2, "VWM": 2, "VWN": 4, "SA": 1, "SB": 1})["TBC"]
        16
    """
    given = {name: int(value) for name, value in config.items() if isinstance(value, int)}
    if "WGD" in given:  # CLBlast's direct kernel: square tiles, always in local memory
        given = {name.removesuffix("D"): value for name, value in given.items()}
        tile = given.pop("WG")
        given = {"MWG": tile, "NWG": tile, "KWG": tile, "SA": 1, "SB": 1, **given}
    if not all(given.get(name, 0) > 0 for name in _NEEDED):
        return {}
    columns, rows = given["MWG"] // given["MDIMC"], given["NWG"] // given["NDIMC"]
    if not columns or not rows:
        return {}
    across, down = min(given.get("VWM", 1), columns), min(given.get("VWN", 1), rows)
    made: dict[str, Value] = {"TBC": given["MDIMC"], "TBR": given["NDIMC"], "TC": across, "TCR": columns // across}
    made |= {"TR": down, "TRR": rows // down, "VL": across, "KB": given["KWG"], "SM": bool(given.get("SA") or given.get("SB"))}
    return made | ({"UNROLL": given["KWI"]} if "KWI" in given else {})
