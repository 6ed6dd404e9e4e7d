"""CLBlast's results: the JSON that its tuners write for each kernel, and its database of all devices.

A tuner's file is one section: kernel family, precision (32, 64, ...), device, arguments and results, each with its parameters and its time
in milliseconds. The database is a list of sections that name the parameters once; each result then has their values and its time.
"""

from __future__ import annotations

from typing import Any

import msgspec

from portatile.errors import ArgumentError
from portatile.formats.other_tuners import ForeignResult, valid
from portatile.records import Config, Value

_PRECISIONS = {"16": "float16", "32": "float32", "64": "float64", "3232": "complex64", "6464": "complex128"}
_NO_PARAMETER = ("PRECISION", "GEMMK", "KREG")  # GEMMK 0 is the kernel that has no KREG


class _Section(msgspec.Struct):
    """The fields of a section that are read."""

    kernel_family: str
    precision: str
    results: list[Any]
    parameter_names: list[str] = []
    clblast_device_name: str = ""
    device: str = ""
    arg_m: str = ""
    arg_n: str = ""
    arg_k: str = ""


def is_one(document: object) -> bool:
    """Whether a JSON document was written by a tuner of CLBlast, or is its database."""
    if not isinstance(document, dict):
        return False
    return {"kernel_family", "precision", "results"} <= set(document) or isinstance(document.get("sections"), list)


def read(document: object) -> list[ForeignResult]:
    """The measured configurations; raises ArgumentError with the path of what is malformed.

    Examples:
        >>> tuned = {"kernel_family": "xgemm_1", "precision": "32", "results": [{"parameters": {"MWG": 64, "PRECISION": 32}, "time": 2.5}]}
        >>> read(tuned)[0].config, read(tuned)[0].seconds
        ({'MWG': 64}, 0.0025)
    """
    assert isinstance(document, dict)
    sections = document["sections"] if isinstance(document.get("sections"), list) else [document]
    configs = []
    for place, raw in enumerate(sections):
        at = f"$.sections[{place}]" if "sections" in document else "$"
        try:
            section = msgspec.convert(raw, _Section, strict=False)
        except msgspec.ValidationError as error:
            raise ArgumentError(f"this is not a file of CLBlast: {error} - in `{at}`") from None
        sizes = {name: int(text) for name, text in zip("mnk", (section.arg_m, section.arg_n, section.arg_k), strict=True) if text.isdigit()}
        family = section.kernel_family.rstrip("0123456789").rstrip("_")
        device = (section.clblast_device_name or section.device).strip()
        for number, result in enumerate(section.results):
            config, spent = _result(section, result, f"{at}.results[{number}]")
            if valid(spent):
                configs.append(
                    ForeignResult(f"CLBlast's {family}", device, _PRECISIONS.get(section.precision, ""), sizes, config, 1e-3 * spent)
                )
    return configs


def _result(section: _Section, result: object, at: str) -> tuple[Config, float]:
    """A result's parameters and milliseconds, from either form of file; raises ArgumentError with its place ``at``."""
    if isinstance(result, dict):
        given, spent = result.get("parameters"), result.get("time")
    elif isinstance(result, list) and len(result) == 2:
        values = str(result[0]).split(",")
        given, spent = dict(zip(section.parameter_names, values, strict=False)), result[1]
        given = given if len(values) == len(section.parameter_names) else None
    else:
        given, spent = None, None
    if not isinstance(given, dict) or not isinstance(spent, int | float):
        raise ArgumentError(f"a result has parameters and a time - at `{at}`")
    try:
        config: dict[str, Value] = {str(name): int(value) for name, value in given.items() if name not in _NO_PARAMETER}
    except (TypeError, ValueError):
        raise ArgumentError(f"CLBlast's parameters are whole numbers - at `{at}.parameters`") from None
    return config, float(spent)
