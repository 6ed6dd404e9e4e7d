"""The words of OpenCL C that have another meaning, or none, in CUDA C++."""

from __future__ import annotations


def words(text: str) -> frozenset[str]:
    """The words of ``text``."""
    return frozenset(text.split())


SIZES = {"char": 1, "uchar": 1, "short": 2, "ushort": 2, "half": 2, "int": 4, "uint": 4, "float": 4, "long": 8, "ulong": 8, "double": 8}
SCALARS = tuple(SIZES)
WIDTHS = {2: 2, 3: 4, 4: 4, 8: 8, 16: 16}  # a vector of three components takes the memory of four
VECTORS = frozenset(f"{scalar}{width}" for scalar in SCALARS for width in WIDTHS)
NARROW = frozenset(SCALARS) | {f"{scalar}{width}" for scalar in SCALARS for width, stored in WIDTHS.items() if SIZES[scalar] * stored < 16}
IMAGES = frozenset({"image1d_t", "image1d_array_t", "image1d_buffer_t", "image2d_t", "image2d_array_t", "image3d_t"})

LOCAL = frozenset({"__local", "local"})
CONSTANT = frozenset({"__constant", "constant"})
GLOBAL = frozenset({"__global", "global", "__private", "private", "__generic", "generic"})
SPACES = LOCAL | CONSTANT | GLOBAL
ACCESS = frozenset({"__read_only", "read_only", "__write_only", "write_only", "__read_write", "read_write"})
KERNEL = frozenset({"__kernel", "kernel"})

# Names before an opening bracket that is not a call.
NOT_A_CALL = frozenset({"return", "sizeof", "else", "do", "case"})

# Words with another spelling in CUDA C++; an empty text removes the word.
SPELT = {
    "restrict": "__restrict__",
    "__restrict": "__restrict__",
    "_Bool": "bool",
    "register": "",
    "__const": "const",
    "__volatile": "volatile",
    "__signed": "signed",
    "__const__": "const",
    "__volatile__": "volatile",
    "__signed__": "signed",
    "__extension__": "",
    "__asm": "asm",
    "__asm__": "asm",
    "_Static_assert": "static_assert",
    "_Alignas": "alignas",
    "_Alignof": "alignof",
    "__alignof__": "alignof",
    "__builtin_memset": "portatile_fill",
    "__builtin_memcpy": "portatile_copy",
    **dict.fromkeys(ACCESS, ""),
}

# Keywords of C++ that are ordinary names in C.
CPP_ONLY = words(
    """alignas alignof and and_eq bitand bitor catch char8_t char16_t char32_t class compl concept const_cast consteval constexpr
    constinit co_await co_return co_yield decltype delete dynamic_cast explicit export friend mutable namespace new noexcept not not_eq
    nullptr operator or or_eq protected public reinterpret_cast requires static_assert static_cast template this thread_local throw try
    typeid typename using virtual wchar_t xor xor_eq"""
)

# Combinations of C's integer words, sorted, and OpenCL C's short names for them.
INTEGERS = {
    ("unsigned",): "uint",
    ("int", "unsigned"): "uint",
    ("char", "unsigned"): "uchar",
    ("short", "unsigned"): "ushort",
    ("int", "short", "unsigned"): "ushort",
    ("long", "unsigned"): "ulong",
    ("int", "long", "unsigned"): "ulong",
    ("signed",): "int",
    ("int", "signed"): "int",
    ("char", "signed"): "char",
    ("short", "signed"): "short",
    ("int", "short"): "short",
    ("long", "signed"): "long",
    ("int", "long"): "long",
}
INTEGER_WORDS = frozenset({"unsigned", "signed", "char", "short", "int", "long"})
