"""Macros expand as pcpp expands them, whose own way takes the square of the text's length."""

from __future__ import annotations

import io
import random
import sys

import pytest
from pcpp import Preprocessor

from portatile.dialect.macros import LinearPreprocessor
from portatile.dialect.preprocess import preprocess
from portatile.errors import CompileError
from support.seeds import new_seed

TEXTS = {
    "objects": "#define A B + A\n#define B (A, B)\nA; B; A B\n",
    "functions": "#define F(x, y) (x) * y + F(y, x)\nF(1, F(2, 3)) F (a\n, b) F F; F\n(1, 2);\n",
    "without arguments": "#define N() 7\n#define M(x) [x]\nN() N( ) M() M( ) N M\n",
    "pasting": '#define J(a, b) a##b\n#define S(a) #a\n#define X J(x, J(y, z))\nJ(fl, oat4) J(1, 2.0f) S(a  "b" c) X J(J, (a, b)) J(, q)\n',
    "variadic": "#define P(f, ...) printf(f, ##__VA_ARGS__)\n#define Q(...) __VA_ARGS__ | #__VA_ARGS__\n"
    'P("a") P("a", 1, (2, 3)) Q(x, y) Q()\n',
    "indirect": "#define E(x) x\n#define G(x) H(x)\n#define H(x) #x E(x)\n#define V 12\nG(V) H(V) E(E)(3) E(E(E(V)))\n",
    "lines": "#define L __LINE__\nL\nint a = __LINE__, b = L +\n__LINE__;\n#define K(x) x L\nK(\n__LINE__)\n",
    "followed by a name": "#define R(x) x\nR(a)b R(1)c R(a) b\n",
    "never closed": "#define R(x) x\nR(a, (b)\nint x;\n",
    "redefined": "#define A 1\nA\n#undef A\nA\n#define A 2\nA\n",
    "blocks": "#define STEP(a, b, n) { a += b ^ n; a = rotate(a, (uint)(n)); }\n#define TWO(a, b) STEP(a, b, 1) STEP(b, a, 2)\n"
    "TWO(x, y.s0) TWO(v[0], STEP(p, q, 3))\n",
}


def expanded(kind: type[Preprocessor], text: str) -> str:
    reader = kind()
    out = io.StringIO()
    reader.parse(text, "a.cl")
    reader.write(out)
    return out.getvalue()


@pytest.mark.parametrize("name", TEXTS)
def test_as_pcpp_does(name: str) -> None:
    assert expanded(LinearPreprocessor, TEXTS[name]) == expanded(Preprocessor, TEXTS[name])


def test_random_macros_as_pcpp_does() -> None:
    seed = new_seed("draws")
    rng = random.Random(seed)
    for _ in range(40):
        names = [f"M{i}" for i in range(5)]

        def piece(depth: int = 0, names: list[str] = names) -> str:
            kind = rng.randrange(8 if depth < 3 else 4)
            if kind < 3:
                return rng.choice(["x", "y", "1", "+", "(z)", "a b"])
            if kind == 3:
                return rng.choice(names)
            inner = ", ".join(piece(depth + 1) for _ in range(2)) if kind < 7 else piece(depth + 1)
            return f"{rng.choice(names)}({inner})"

        defines = []
        for i, name in enumerate(names):
            body = " ".join(piece(1) for _ in range(rng.randrange(4)))
            defines.append(f"#define {name}{'(x, y)' if i % 2 else ''} {body}\n")
        text = "".join(defines) + "\n".join(piece() for _ in range(12)) + "\n"
        results = []
        for kind in (LinearPreprocessor, Preprocessor):
            try:
                results.append(expanded(kind, text))
            except RecursionError:
                results.append("too deep")
        assert results[0] == results[1], text


def test_a_wrong_number_of_arguments_is_placed() -> None:
    with pytest.raises(CompileError, match=r"f\.cl:3: macro F takes 2 arguments, not 1"):
        preprocess("#define F(x, y) x\n\nint a = F(1);\n", "f.cl", {})


def test_long_macros_need_no_deep_recursion() -> None:
    """A long text of calls stays within the interpreter's stack and keeps every line."""
    calls = 3 * sys.getrecursionlimit()
    text = "#define ADD(a, b) a += b;\n" + "ADD(x, y)\n" * calls
    assert preprocess(text, "f.cl", {}).count("x += y;\n") == calls
