"""Random kernels whose results OpenCL C fixes to the last bit: integers and vectors of every type, exact functions of reals.

Sums and products are unsigned where they may overflow, divisors are never zero, and no real number becomes infinite.
"""

from __future__ import annotations

import random

_SIGNED = ("char", "short", "int", "long")
_TYPES = tuple(name for kind in _SIGNED for name in (kind, f"u{kind}"))
_SCALARS = {f"x{n}": kind for n, kind in enumerate(_TYPES)}
_VECTORS = {kind: f"v{n}" for n, kind in enumerate(_TYPES)}
_BINARY = ("min", "max", "add_sat", "sub_sat", "hadd", "rhadd", "rotate", "mul_hi")
_ROUNDINGS = ("", "_rte", "_rtz", "_rtp", "_rtn")
_RELATIONS = ("<", ">", "<=", ">=", "==", "!=")

HEAD = """#pragma OPENCL FP_CONTRACT OFF
enum {{ FIRST, SECOND = 3, THIRD = 1 << SECOND }};
__kernel void k({parameters}, __global const float *f, __global ulong *o, __global float *p)
{{
  int i = get_global_id(0);
  bool t = i & 1;
  float r = f[i], s = f[i + 64];
  float4 q = vload4(i, f);
  {loads}
"""
PARAMETERS = len(_TYPES)
RESULTS, REALS = 2 + 5 * len(_TYPES), 6


class Chance:
    """Writes expressions; ``depth`` is how deep they are nested at most."""

    def __init__(self, seed: int) -> None:
        self._pick = random.Random(seed)

    def kernel(self, statements: int = 16) -> str:
        """Kernel ``k``: 64 work-items write RESULTS integers and REALS real numbers each."""
        loads = " ".join(f"{kind} x{n} = a{n}[i]; {kind}4 v{n} = vload4(i, a{n});" for n, kind in enumerate(_TYPES))
        parameters = ", ".join(f"__global const {kind} *a{n}" for n, kind in enumerate(_TYPES))
        lines = [self._statement() for _ in range(statements)]
        lines += [f"o += i * {RESULTS};", f"p += i * {REALS};", "o[0] = t;", "o[1] = sizeof(t + 1);"]
        for n in range(len(_TYPES)):
            lines += [f"o[{2 + n}] = x{n};", f"vstore4(convert_ulong4(v{n}), {n}, o + {2 + len(_TYPES)});"]
        lines += ["p[0] = r;", "p[1] = s;", "vstore4(q, 0, p + 2);"]
        return HEAD.format(parameters=parameters, loads=loads) + "".join(f"  {line}\n" for line in lines) + "}\n"

    def _one(self, *choices: str) -> str:
        return self._pick.choice(choices)

    def _statement(self) -> str:
        name, kind = self._pick.choice(list(_SCALARS.items()))
        vector = self._pick.choice(_TYPES)
        return self._one(
            f"{name} = ({kind})({self._whole(3)});",
            f"{name} {self._one('^=', '|=', '&=', '<<=', '>>=')} {self._whole(2)};",
            f"t = ({self._whole(2)});",
            f"t{self._one('++', '--')};",
            f"{_VECTORS[vector]} = {self._vector(vector, 3)};",
            f"{_VECTORS[vector]} {self._one('+=', '^=', '*=', '<<=', '>>=')} {self._vector(vector, 2)};",
            f"{_VECTORS[vector]}.{self._one('xy', 'zx', 'hi', 'odd')} {self._one('=', '+=', '|=')} ({self._vector(vector, 1)}).wy;",
            f"{self._one('r', 's')} = {self._real(2)};",
            f"q = {self._reals(2)};",
        )

    def _whole(self, depth: int) -> str:
        """An integer of any type."""
        if depth == 0 or self._pick.random() < 0.1:
            return self._one(*_SCALARS, "t", "i", "3", "7u", "'a'", "100000", "0x1234567890l", "THIRD", "true")
        a, b, c = (self._whole(depth - 1) for _ in range(3))
        kind = self._pick.choice(_TYPES)
        return self._one(
            f"({a} + {b} * 1u)",
            f"((uint)({a}) * (uint)({b}))",
            f"({a} {self._one('&', '^', '|')} {b})",
            f"({a} {self._one('<<', '>>')} {b})",
            f"({a} {self._one(*_RELATIONS)} {b})",
            f"({a} {self._one('&&', '||')} {b})",
            f"({a} ? {b} : {c})",
            f"({kind})({a})",
            f"((ulong)({a}) {self._one('/', '%')} ((uint)({b}) | 1))",
            f"{self._one('!', '~', '-(uint)')}({a})",
            f"{self._one(*_BINARY, 'abs_diff')}(({kind})({a}), ({kind})({b}))",
            f"{self._one('abs', 'popcount', 'clz')}(({kind})({a}))",
            f"convert_{kind}_sat(({self._pick.choice(_TYPES)})({a}))",
            f"convert_{kind}_sat{self._one(*_ROUNDINGS)}({self._real(1)})",
        )

    def _vector(self, kind: str, depth: int) -> str:
        """Four integers of one type."""
        if depth == 0:
            return self._one(_VECTORS[kind], f"({kind}4)({self._whole(1)})", f"({kind}4)({', '.join(self._whole(0) for _ in range(4))})")
        a, b = (self._vector(kind, depth - 1) for _ in range(2))
        plain = kind.removeprefix("u")
        like, other = self._one(plain, f"u{plain}"), self._pick.choice(_TYPES)
        mask = f"as_{plain}4({self._vector(like, depth - 1)} {self._one(*_RELATIONS)} {self._vector(like, depth - 1)})"
        return self._one(
            f"({a} {self._one('+', '-', '*', '&', '|', '^')} {b})",
            f"({a} {self._one('<<', '>>')} {b})",
            f"as_{kind}4({mask})",
            f"convert_{kind}4{self._one('', '_sat')}({self._vector(other, depth - 1)})",
            f"({a}).{''.join(self._pick.choices('xyzw', k=4))}",
            f"{self._one(*_BINARY)}({a}, {b})",
            f"({mask} ? {a} : {b})",
            f"select({a}, {b}, {mask})",
            f"{'~' if kind == 'short' else self._one('-', '~')}({a})",  # ptxas widens neg.s16 before it negates: -32768 gives 32768
            f"shuffle({a}, (u{plain}4)({', '.join(str(self._pick.randrange(4)) for _ in range(4))}))",
            f"({kind}4)(({a}).{self._one('lo', 'hi', 'even', 'xy')}, ({b}).s{self._pick.randrange(4)}, ({kind})({self._whole(1)}))",
            f"bitselect({a}, {b}, {self._vector(kind, depth - 1)})",
        )

    def _real(self, depth: int) -> str:
        if depth == 0:
            return self._one("r", "s", "1.5f", "0.1f", "q.x", "q.s2", "3")
        a, b = (f"(float)({self._real(depth - 1)})" for _ in range(2))
        return self._one(
            f"({a} {self._one('+', '-', '*')} {b})",
            f"fma({a}, {b}, 0.3f)",
            f"{self._one('fmin', 'fmax', 'fdim', 'nextafter', 'copysign', 'step')}({a}, {b})",
            f"{self._one('fabs', 'floor', 'ceil', 'trunc', 'rint', 'round', 'sign')}({a})",
            f"({a} {self._one(*_RELATIONS)} {b} ? {a} : {b})",
            f"ldexp({a}, {self._whole(0)} & 3)",
            f"convert_float{self._one(*_ROUNDINGS)}(({self._one('char', 'ushort', 'int', 'uint')})({self._whole(1)}) & 0xfff)",
            f"clamp({a}, -2.0f, 2.0f)",
        )

    def _reals(self, depth: int) -> str:
        if depth == 0:
            return self._one("q", "(float4)(r)", "(float4)(1, r, s, 2)")
        a, b = (self._reals(depth - 1) for _ in range(2))
        return self._one(
            f"({a} {self._one('+', '-', '*')} {b})",
            f"fma({a}, {b}, q)",
            f"{self._one('fmin', 'fmax', 'fdim', 'copysign', 'step', 'max')}({a}, {b})",
            f"{self._one('fabs', 'floor', 'ceil', 'trunc', 'rint', 'sign')}({a})",
            f"({a} {self._one(*_RELATIONS)} {b} ? {a} : {b})",
            f"convert_float4(convert_{self._one('int', 'uchar', 'short')}4_sat{self._one(*_ROUNDINGS)}({a}))",
            f"({a}).{''.join(self._pick.choices('xyzw', k=4))}",
            f"(float4)(({a}).{self._one('lo', 'hi', 'odd')}, ({b}).yw)",
        )
