"""The signature of a kernel: its parameters, which of them are read-only, and the work-group that it requires."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from portatile.dialect.names import CONSTANT, KERNEL
from portatile.dialect.passes import expressions
from portatile.dialect.passes.attributes import Attributes
from portatile.dialect.passes.declarations import Declarations
from portatile.dialect.places import Places
from portatile.dialect.preprocess import preprocess
from portatile.dialect.tokens import Tokens, UnbalancedError
from portatile.errors import CompileError, UnknownNameError, UsageError
from portatile.records import Parameter, Size3

_WRITTEN = frozenset({"write_only", "__write_only", "read_write", "__read_write"})


@dataclass(frozen=True)
class Signature:
    """The signature of the kernel ``name``. ``read_only``: pointers to const or to constant memory, and images that are only read."""

    name: str
    parameters: tuple[Parameter, ...]
    read_only: frozenset[str]
    work_group: Size3 | None


def signature(text: str, kernel: str, file: str = "kernel.cl", defines: Mapping[str, str] = MappingProxyType({})) -> Signature:
    """The signature of the kernel called ``kernel`` in OpenCL C ``text``, preprocessed with ``defines``.

    Raises UnknownNameError, which lists the kernels; UsageError if there are none; and CompileError with file and line for what cannot be
    parsed.

    Examples:
        >>> signature("kernel void f(global const float *x, global float *y) {}", "f").read_only
        frozenset({'x'})
    """
    plain = preprocess(text, file, defines, "opencl")
    places = Places(plain, file)
    try:
        tokens = Tokens(plain)
    except UnbalancedError as error:
        raise CompileError(f"{places.at(error.line)}: {error}") from None
    heads = {tokens[head.opening - 1].text: head for head in _heads(tokens)}
    if not heads:
        raise UsageError(f"{file} has no kernel: no function is declared __kernel")
    if kernel not in heads:
        raise UnknownNameError(f"kernel of {file}", kernel, heads)
    return _read(tokens, heads[kernel], places)


@dataclass(frozen=True)
class _KernelHead:
    """The positions in a kernel's declaration: its start, its parameters, and its body or semicolon."""

    start: int
    opening: int
    end: int


def _heads(tokens: Tokens) -> Iterator[_KernelHead]:
    """The heads of the kernels, which stand outside of all brackets."""
    start, kernel, opening = 0, False, None
    for i in tokens.at_depth(0, len(tokens)):
        token = tokens[i]
        if token.text in KERNEL:
            kernel = True
        elif token.text == "(" and tokens[i - 1].kind == "name" and tokens[i - 1].text != "__attribute__" and opening is None:
            opening = i
        elif token.text in ("{", ";"):
            if kernel and opening is not None:
                yield _KernelHead(start, opening, i)
            start, kernel, opening = tokens.partner.get(i, i) + 1, False, None


def _read(tokens: Tokens, head: _KernelHead, places: Places) -> Signature:
    walk = Declarations(tokens, expressions.declared(tokens), places)
    closing = tokens.partner[head.opening]
    attributes = Attributes()
    for i in (*range(head.start, head.opening), *range(closing, head.end)):
        if tokens[i].text == "__attribute__":
            attributes.read(tokens, i, places)
    parameters, read_only = [], set()
    for part in tokens.parameters(head.opening):
        words = [tokens[i].text for i in part]
        if words == ["void"]:
            continue
        parameter = walk.describe(part, walk.declarator(part))
        parameters.append(parameter)
        star = max((place for place, word in enumerate(words) if word == "*"), default=len(words))
        constant = parameter.kind == "buffer" and ("const" in words[:star] or CONSTANT & set(words))
        if constant or (parameter.kind == "image" and not _WRITTEN & set(words)):
            read_only.add(parameter.name)
    return Signature(tokens[head.opening - 1].text, tuple(parameters), frozenset(read_only), attributes.work_group)
