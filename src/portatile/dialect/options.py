"""OpenCL's build options, translated to options of NVRTC."""

from __future__ import annotations

from collections.abc import Sequence

# OpenCL C allows errors of 2.5 and 3 units in the last place in division and square root of floats, and NVIDIA's OpenCL compiler uses that:
# without the same freedom kernels would be slower through CUDA. Contraction of a * b + c is on in both.
NVRTC_OPTIONS: tuple[str, ...] = (
    "-default-device",
    "-std=c++20",
    "-prec-div=false",
    "-prec-sqrt=false",
    "-diag-suppress=83,177,191,546,550,2189,2361",
)

_SAME: dict[str, tuple[str, ...]] = {
    "-cl-fast-relaxed-math": ("-ftz=true", "-use_fast_math"),
    "-cl-denorms-are-zero": ("-ftz=true",),
    "-cl-mad-enable": ("-fmad=true",),
    "-cl-unsafe-math-optimizations": ("-fmad=true",),
    "-cl-fp32-correctly-rounded-divide-sqrt": ("-prec-div=true", "-prec-sqrt=true"),
    "-cl-opt-disable": ("-G",),  # the only option that disables all optimisation in NVRTC, including its assembler's
    "-Werror": (),  # the translation's warnings do not concern the user
    "-g": ("-lineinfo",),
}


def definitions(options: Sequence[str]) -> tuple[dict[str, str], tuple[str, ...]]:
    """The macros that ``-D`` defines and ``-U`` does not remove, by name, and the other build options."""
    macros: dict[str, str] = {}
    others: list[str] = []
    rest = iter(options)
    for option in rest:
        if not option.startswith(("-D", "-U")):
            others.append(option)
            continue
        name, sign, value = (option[2:].strip() or next(rest, "")).partition("=")
        macros.pop(name, None)
        if option.startswith("-D") and name:
            macros[name] = value if sign else "1"
    return macros, tuple(others)


def nvrtc_options(options: Sequence[str] = ()) -> tuple[str, ...]:
    """``NVRTC_OPTIONS`` and OpenCL's build options; NVRTC's own options are passed on, and of several options of a kind the last one
    counts.

    OpenCL's ``-cl-...`` options without a counterpart in NVRTC (such as ``-cl-std``) are dropped.
    """
    chosen: dict[str, str] = {}
    for option in (*NVRTC_OPTIONS, *options):
        level = option.removeprefix("-cl-nv-opt-level=")
        register_limit = option.removeprefix("-cl-nv-maxrregcount=")
        if register_limit != option:
            translated: tuple[str, ...] = (f"-maxrregcount={register_limit}",)
        elif level != option:
            translated = (f"-Xptxas=-O{level}",)
        elif option.startswith("-cl-") or option in _SAME:
            translated = _SAME.get(option, ())
        else:
            translated = (option,)
        for word in translated:
            name = word if word.startswith(("-D", "-I", "-Xptxas", "-U")) else word.lstrip("-").split("=")[0]
            chosen.pop(name, None)
            chosen[name] = word
    return tuple(chosen.values())
