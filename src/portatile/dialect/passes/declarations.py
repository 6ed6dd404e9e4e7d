"""Rewrites declarations: address spaces, functions, kernels and their exported wrappers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from portatile.dialect.names import (
    ACCESS,
    CONSTANT,
    CPP_ONLY,
    IMAGES,
    INTEGER_WORDS,
    INTEGERS,
    KERNEL,
    LOCAL,
    NARROW,
    SCALARS,
    SPACES,
    words,
)
from portatile.dialect.passes.attributes import Attributes
from portatile.dialect.passes.expressions import Names
from portatile.dialect.passes.jumps import Jumps
from portatile.dialect.passes.pointer_conversions import Conversions
from portatile.dialect.places import Places
from portatile.dialect.tokens import Tokens
from portatile.errors import CompileError
from portatile.records import ArgKind, Entry, Parameter

# A kernel that is named like one of these library functions cannot be exported under its name.
_TAKEN = words(
    """abort abs acos acosf acosh asin asinf asinh atan atan2 atanf atanh calloc cbrt ceil clock copysign cos cosh cospi cyl_bessel_i0
    erf erfc erfcinv erfcx erfinv exit exp exp10 exp2 expm1 fabs fabsf fdim floor fma fmax fmin fmod fprintf free frexp hypot ilogb
    isfinite isinf isnan isnormal j0 j1 jn labs ldexp lgamma llabs llrint llround log log10 log1p log2 logb lrint lround main malloc max
    memchr memcmp memcpy memmove memset min modf nan nearbyint nextafter norm norm3d norm4d normcdf pow printf rcbrt realloc remainder
    remquo rhypot rint rnorm round rsqrt saturate scalbln scalbn signbit sin sincos sincospi sinh sinpi sprintf sqrt strcmp strcpy strlen
    strncmp strncpy tan tanh tgamma time trunc umax umin vprintf y0 y1 yn blockDim blockIdx clock64 gridDim threadIdx warpSize"""
)
_TAKEN = _TAKEN | {f"{name}f" for name in _TAKEN}
_DROPPED = frozenset({"inline", "__inline", "__inline__", "static", "extern"})
_CONTROL = frozenset({"if", "for", "while", "switch", "return", "case", "goto", "sizeof", "__attribute__", "asm", "__asm__"})
_NO_TYPE = (
    SPACES
    | ACCESS
    | {"const", "__const", "volatile", "__volatile", "restrict", "__restrict", "__restrict__", "__attribute__", "*", "[", "("}
)


@dataclass
class _Function:
    """The positions of a function's parts in the token list."""

    start: int
    name: int
    opening: int
    end: int
    attributes: Attributes = field(default_factory=Attributes)
    kernel: bool = False
    returned: str = ""  # the returned type, if it is a pointer


class Declarations:
    """One walk over the external declarations; ``entries`` collects the kernels."""

    def __init__(self, tokens: Tokens, names: Names, places: Places) -> None:
        self._tokens, self._names, self._places = tokens, names, places
        self._conversions = Conversions(tokens, names)
        self._jumps = Jumps(tokens, names)
        self._constants: dict[str, int] = {}
        self.entries: list[Entry] = []

    def rewrite(self) -> None:
        """Rewrite every declaration in place; raises CompileError."""
        tokens, start, i = self._tokens, 0, 0
        while i < len(tokens):
            token = tokens[i]
            if token.text == ";":
                self._declaration(start, i)
                start = i + 1
            elif token.text == "{" and (function := self._function(start, i)):
                self._body(i + 1, tokens.partner[i])
                if function.returned:
                    self._conversions.returned(i + 1, tokens.partner[i], function.returned)
                self._conversions.accept_any_pointer(function.name, function.opening, tokens.partner[i])
                if function.kernel:
                    self._wrap(function, tokens.partner[i])
                i = tokens.partner[i]
                start = i + 1
            elif token.text in ("(", "[", "{"):
                i = tokens.partner[i]
            i += 1
        self._conversions.rewrite()

    def _error(self, index: int, message: str) -> CompileError:
        return CompileError(f"{self._places.at(self._tokens[index].line)}: {message}")

    # Functions

    def _function(self, start: int, end: int) -> _Function | None:
        """Rewrite the specifiers and parameters of the function whose body or final semicolon is at ``end``."""
        tokens = self._tokens
        groups = []
        for i in tokens.at_depth(start, end):
            if tokens[i].text in ("=", "typedef"):
                return None
            if tokens[i].text == "(" and i > start and tokens[i - 1].kind == "name" and tokens[i - 1].text not in _CONTROL:
                groups.append(i)
        if not groups or groups[0] == start + 1:
            return None
        function = _Function(start, groups[0] - 1, groups[0], end)
        self._specifiers(function)
        for i in range(function.opening, tokens.partner[function.opening]):
            if tokens[i].text == "__attribute__":
                tokens.erase(i, tokens.partner[i + 1])
        for part in tokens.parameters(function.opening):
            self._parameter(part)
        return function

    def _specifiers(self, function: _Function) -> None:
        """Read and remove the attributes. Every function is inlined unless they forbid it, so that address spaces are known."""
        tokens = self._tokens
        closing = tokens.partner[function.opening]
        for i in [*range(function.start, function.name), *range(closing + 1, function.end)]:
            if tokens[i].text == "__attribute__":
                function.attributes.read(tokens, i, self._places)
                tokens.erase(i, tokens.partner[i + 1])
            elif tokens[i].text in KERNEL:
                function.kernel = True
                tokens.erase(i)
            elif tokens[i].text in _DROPPED or tokens[i].text in SPACES - CONSTANT:
                tokens.erase(i)
            elif tokens[i].text in CONSTANT:
                tokens[i].out = "const"
        prefix = "__noinline__ " if function.attributes.noinline else "__forceinline__ "
        first = function.start
        body = next((i for i in tokens.at_depth(first, function.name) if tokens[i].text == "{"), None)
        if body is not None:  # a structure that is defined as the returned type
            first = tokens.partner[body]
            name = tokens[body - 1].text
            if name in ("struct", "union"):
                name = f"portatile_{name}_{body}"
                tokens[body - 1].out += f" {name}"
            tokens[first].out = name
        if tokens[function.name - 1].text == "*":
            function.returned = tokens.emitted(range(first, function.name))
        tokens[first].out = ("}; " if body is not None else "") + prefix + tokens[first].out

    def _parameter(self, part: range) -> None:
        """Remove the address space; a ``__constant`` pointer becomes read-only and restrict, since its loads are not cached otherwise."""
        tokens = self._tokens
        constant = any(tokens[i].text in CONSTANT for i in part)
        has_const = any(tokens[i].text == "const" for i in part)
        star = max((i for i in part if tokens[i].text == "*"), default=None)
        for i in part:
            if tokens[i].text in SPACES:
                tokens[i].out = "const" if tokens[i].text in CONSTANT and not has_const else ""
        if constant and star is not None and not any(tokens[i].out == "__restrict__" for i in range(star, part.stop)):
            tokens[star].out = "* __restrict__ "
        bracket = next((i for i in tokens.at_depth(part.start, part.stop) if tokens[i].text in ("[", "(")), None)
        if bracket is not None and tokens[bracket].text == "[":  # the first extent has no meaning: int a[n], a[static 4], a[const]
            tokens.erase(bracket + 1, tokens.partner[bracket] - 1)

    # Kernels

    def _wrap(self, function: _Function, closing: int) -> None:
        """Write the exported kernel on the line of the closing brace of the function that it calls."""
        tokens = self._tokens
        name = tokens[function.name]
        symbol = f"portatile_{name.text}" if name.text in _TAKEN | CPP_ONLY or name.text.startswith("__") else name.text
        parameters, declared, passed = [], [], []
        for part in tokens.parameters(function.opening):
            if [tokens[i].text for i in part] == ["void"]:
                continue
            at = self.declarator(part)
            parameter = self.describe(part, at)
            parameters.append(parameter)
            if parameter.kind == "local":
                declared.append(f"unsigned {tokens[at].out}")
                passed.append(f"::ocl::portatile_local{{{tokens[at].out}}}")
            elif parameter.kind == "tensor_map":
                declared.append(f"const __grid_constant__ ::ocl::portatile_map {tokens[at].out}")
                passed.append(f"&{tokens[at].out}")
            else:
                declared.append(tokens.emitted(part))
                passed.append(tokens[at].out)
        bounds, assume = "", ""
        if size := function.attributes.work_group:
            groups = f", {function.attributes.min_groups}" if function.attributes.min_groups else ""
            bounds = f"__launch_bounds__({size[0] * size[1] * size[2]}{groups}) "
            if function.attributes.cluster_groups:
                bounds += f"__cluster_dims__({function.attributes.cluster_groups}, 1, 1) "
            for axis, extent in zip("xyz", size, strict=True):
                assume += f"__builtin_assume(blockDim.{axis} == {extent}); __builtin_assume(threadIdx.{axis} < {extent}); "
        tokens[closing].out += (
            f' }} namespace portatile_entry {{ extern "C" __global__ void {bounds}{symbol}({", ".join(declared)})'
            f" {{ {assume}::ocl::prog::{name.out}({', '.join(passed)}); }} }} namespace {{"
        )
        self.entries.append(Entry(name.text, symbol, tuple(parameters), function.attributes.work_group))

    def declarator(self, part: range) -> int:
        """The position of the parameter's name: the last name before array brackets, also inside ``(*name)``."""
        tokens = self._tokens
        for i in self._tokens.at_depth(part.start, part.stop):
            if tokens[i].text == "(" and tokens.text_at(i + 1) == "*":
                return tokens.partner[i] - 1
        brackets = next((i for i in part if tokens[i].text == "["), part.stop)
        at = brackets - 1
        if at <= part.start or tokens[at].kind != "name":
            raise self._error(part.start, "a parameter of a kernel needs a name")
        return at

    def describe(self, part: range, at: int) -> Parameter:
        """The record of a kernel parameter."""
        tokens = self._tokens
        words = self._resolved([tokens[i].text for i in tokens.at_depth(part.start, part.stop) if i != at])
        pointer = "*" in words or "[" in words or "(" in words
        base = "int" if "enum" in words else " ".join(w for w in words if w not in _NO_TYPE)
        spaces = set(words) & SPACES
        kind: ArgKind
        if spaces & LOCAL:
            kind = "local"
        elif base in IMAGES:
            kind = "image"
        elif base == "tensor_map_t" and not pointer:
            kind = "tensor_map"
        elif pointer and not spaces - {"__private", "private"}:
            raise self._error(at, f"the pointer {tokens[at].text!r} of a kernel must be __global, __constant or __local")
        else:
            kind = "buffer" if pointer else "scalar"
        return Parameter(tokens[at].text, kind, base + "*" if pointer else base)

    def _resolved(self, words: Sequence[str]) -> list[str]:
        """The words of a type, with the text's typedefs replaced and C's integer types in OpenCL C's short form."""
        plain = list(words)
        for _ in range(8):
            plain = [new for word in plain for new in self._names.aliases.get(word, (word,))]
        plain = [word.removeprefix("atomic_") if word.removeprefix("atomic_") in SCALARS else word for word in plain]
        integers = [word for word in plain if word in INTEGER_WORDS]
        short = INTEGERS.get(tuple(sorted(integers)), " ".join(integers))
        rest = [word for word in plain if word not in INTEGER_WORDS]
        return [*rest, short] if short else rest

    # Variables

    def _declaration(self, start: int, end: int) -> None:
        """Rewrite a declaration outside of functions that ends with the semicolon at ``end``: a prototype, a type or a constant."""
        if self._function(start, end) is None:
            self._variable(start, end, program_scope=True)

    def _body(self, first: int, end: int) -> None:
        """Rewrite every statement of a block and of the blocks inside it."""
        tokens, start, i = self._tokens, first, first
        while i < end:
            text = tokens[i].text
            label = text == ":" and (i == start + 1 or tokens.text_at(start) in ("case", "default"))
            if text == "{" and self._is_aggregate(i):
                self._nested(i, tokens.partner[i])
                i = tokens.partner[i]
            elif text in ("{", "}") or label:
                start = i + 1
            elif text == ";":
                self._variable(start, i, program_scope=False)
                self._jumps.pass_over(start, i)
                start = i + 1
            elif text in ("(", "[") and tokens.text_at(i + 1) != "{":
                self._nested(i, tokens.partner[i])
                if tokens.text_at(i - 1) in ("if", "for", "while", "switch"):
                    start = tokens.partner[i] + 1
                i = tokens.partner[i]
            elif text == "=" and tokens.text_at(i + 1) == "{":
                self._nested(i + 1, tokens.partner[i + 1])
                i = tokens.partner[i + 1]
            i += 1

    def _is_aggregate(self, i: int) -> bool:
        """Whether the brace at ``i`` opens the members of a structure or union."""
        tokens, at = self._tokens, i - 1
        while tokens.text_at(at) == ")" and tokens.text_at(tokens.partner[at] - 1) == "__attribute__":
            at = tokens.partner[at] - 2
        if tokens[at].kind == "name" and tokens[at].text not in ("struct", "union"):
            at -= 1
        return tokens.text_at(at) in ("struct", "union")

    def _nested(self, first: int, last: int) -> None:
        """Remove address spaces inside brackets (casts, heads of loops, initialisers), where they always belong to a pointer."""
        tokens = self._tokens
        for i in range(first, last):
            if tokens[i].text in SPACES and tokens[i].out:
                tokens[i].out = ""
                if tokens[i].text in CONSTANT and "const" not in (tokens.text_at(i - 1), tokens.text_at(i + 1)):
                    tokens[i].out = "const"

    def _variable(self, start: int, end: int, program_scope: bool) -> None:
        """Rewrite one declaration: an address space is removed from a pointer, and becomes CUDA's qualifier on a variable."""
        tokens = self._tokens
        places = [i for i in tokens.at_depth(start, end) if tokens[i].text in SPACES]
        for i in tokens.at_depth(start, end):
            if program_scope and tokens[i].text in ("(", "[", "{"):
                self._nested(i, tokens.partner[i])
        if not places:
            own = not program_scope and not any(tokens[i].text == "*" for i in range(start, min(start + 4, end)))
            if own and tokens.text_at(start) == "volatile" and tokens.text_at(start + 1) in self._names.aggregates | {"struct", "union"}:
                tokens[start].out = ""  # C++ does not copy volatile structures, and a work-item's private variables need no volatile
            return
        head = next((i for i in tokens.at_depth(start, end) if tokens[i].text in ("=", "[", ",")), end)
        pointer = any("*" in (tokens[i].text, tokens[i].text == "(" and tokens.text_at(i + 1)) for i in tokens.at_depth(start, head))
        typedef = any(tokens[i].text == "typedef" for i in range(start, end))
        spaces = {tokens[i].text for i in places}
        has_const = any(tokens[i].text == "const" for i in range(start, head))
        for i in places:
            tokens[i].out = ""
        qualifier = ""
        if spaces & CONSTANT:
            qualifier = "const " if not has_const else ""
            if not typedef and (not pointer or program_scope):
                qualifier = "static __constant__ " + qualifier
                for i in range(start, head):
                    if tokens[i].text == "static":
                        tokens[i].out = ""
        elif spaces & LOCAL and not typedef:
            shared = self._shared(start, head, end)
            self._apart(start, head, end, pointer, shared)
            qualifier = "" if pointer else shared
        tokens[start].out = qualifier + tokens[start].out
        if spaces & CONSTANT and not pointer and not typedef:
            self._constant(start, end)

    def _shared(self, start: int, head: int, end: int) -> str:
        """CUDA's qualifier of a variable in local memory. Arrays of small elements are aligned for wider accesses; an attribute would
        lower the alignment of wide ones.
        """
        tokens = self._tokens
        array = any(tokens[i].text == "[" for i in tokens.at_depth(start, end))
        settled = any(tokens[i].text in ("aligned", "__aligned__") for i in range(start, end))
        narrow = not NARROW.isdisjoint(self._resolved([tokens[i].text for i in range(start, head)]))
        return "__shared__ __attribute__((aligned(16))) " if array and narrow and not settled else "__shared__ "

    def _apart(self, start: int, head: int, end: int, pointer: bool, shared: str) -> None:
        """``local int a[4], *p`` becomes two declarations: the array is shared, and each work-item has its own pointer."""
        tokens = self._tokens
        star = next((i for i in tokens.at_depth(start, head) if tokens[i].text in ("*", "(")), head - 1)
        type_words = tokens.emitted(range(start, star))
        for part in tokens.split(start, end)[1:]:
            declares_pointer = any(tokens[i].text in ("*", "(") for i in part[:2])
            if declares_pointer != pointer and "{" not in type_words:
                tokens[part.start - 1].out = f"; {'' if declares_pointer else shared}{type_words} "
                pointer = declares_pointer

    def _constant(self, start: int, end: int) -> None:
        """Rewrite a constant that is computed from other constants: in C++ these must be known at compile time."""
        tokens = self._tokens
        for part in tokens.split(start, end):
            equals = next((i for i in tokens.at_depth(part.start, part.stop) if tokens[i].text == "="), None)
            if equals is None:
                continue
            for i in range(equals, part.stop):
                other = self._constants.get(tokens[i].text)
                if other is not None and tokens.text_at(i - 1) not in (".", "->") and " constexpr " not in tokens[other].out:
                    tokens[other].out = tokens[other].out.replace("__constant__ ", "__constant__ constexpr ", 1)
            name = next((i for i in tokens.at_depth(part.start, equals) if tokens[i].text == "["), equals) - 1
            self._constants[tokens[name].text] = start
