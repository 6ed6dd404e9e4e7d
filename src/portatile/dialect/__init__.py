"""One kernel text for every back end: OpenCL C with two preludes, and its translation to CUDA C++.

- The preprocessor: ``preprocess``, ``lexer``, ``macros``, ``includes``. ``places`` maps lines to files.
- The translation: ``opencl_to_cuda`` runs the passes, each a file in ``passes``; they work on ``tokens``, with the word lists of ``names``.
- What a text declares: ``signature``, ``variables``; ``other_languages`` finds words of CUDA C and C++.
- Around NVRTC: ``options``, ``messages``; ``version`` is the hash of all this.

The translator is loaded at its first use, which OpenCL devices never need.
"""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING as _TYPE_CHECKING

from portatile.dialect.version import PRELUDE_OPENCL, VERSION, headers, opencl

if _TYPE_CHECKING:
    from portatile.dialect.includes import gather, read_text
    from portatile.dialect.messages import readable
    from portatile.dialect.opencl_to_cuda import Translation, translate
    from portatile.dialect.options import NVRTC_OPTIONS, definitions, nvrtc_options
    from portatile.dialect.other_languages import cuda_word, other_language

__all__ = [
    "NVRTC_OPTIONS",
    "PRELUDE_OPENCL",
    "VERSION",
    "Translation",
    "cuda_word",
    "definitions",
    "gather",
    "headers",
    "nvrtc_options",
    "opencl",
    "other_language",
    "read_text",
    "readable",
    "translate",
]

_FILES = {
    "includes": ("gather", "read_text"),
    "messages": ("readable",),
    "opencl_to_cuda": ("Translation", "translate"),
    "options": ("NVRTC_OPTIONS", "definitions", "nvrtc_options"),
    "other_languages": ("cuda_word", "other_language"),
}


def __getattr__(name: str) -> object:
    """Load a name from its file at first use; see PEP 562."""
    file = next((file for file, names in _FILES.items() if name in names), None)
    if file is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(_import_module(f"{__name__}.{file}"), name)
    globals()[name] = value
    return value
