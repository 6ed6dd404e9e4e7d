"""The user's headers in kernel text for CUDA: where they are looked for, and which lines messages name."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from portatile import dialect
from portatile.device.cuda import compiler as cuda_compiler
from portatile.errors import CompileError
from support.compiling import ptx


def test_headers_keep_their_lines(tmp_path: Path) -> None:
    """Beside the including file, in folders, by macro, once, in circles, in branches that are not taken."""
    (tmp_path / "sub").mkdir()
    (tmp_path / "a.h").write_text('#pragma once\n#include "sub/b.h"\nint a() { return 1; }\n')
    (tmp_path / "sub" / "b.h").write_text('#ifndef B\n#define B\n#include "../a.h"\nint b() { return BROKEN; }\n#endif\n')
    (tmp_path / "sub" / "table.inc").write_text("1, 2,\n3\n")
    text = """// #include "nothing.h"
#if 0
#include "a.h"
#else
#include <a.h>
#endif
#define WHERE "sub/b.h"
#include WHERE
/* #include "nothing.h" */ __constant int t[] = {
#include TABLE
};
#ifdef NEVER
#include "missing.h"
#endif
__kernel void k(__global int *o) { o[0] = a() + b() + t[2] + __LINE__; }
LAST
"""
    path, defines = tmp_path / "user.cl", {"TABLE": '"table.inc"', "BROKEN": "2", "LAST": ""}
    gathered = dialect.gather(text, path, [tmp_path / "sub", tmp_path], defines)
    assert gathered.count("int a()") == 3  # in each branch that includes it; the guard lets one through
    assert "pragma once" not in gathered
    plain = dialect.translate(gathered, file=str(path), defines=defines).text
    assert plain.count("int a()") == 1
    with pytest.raises(CompileError, match=r"user\.cl:16: ']'|user\.cl:16: unexpected '\]'"):
        dialect.translate(gathered, file=str(path), defines={**defines, "LAST": "]"})
    with pytest.raises(CompileError, match=r"b\.h:4: unexpected '\)'"):
        dialect.translate(gathered, file=str(path), defines={**defines, "BROKEN": ")"})
    with pytest.raises(CompileError, match=r"user\.cl:13: #include 'missing\.h'"):
        dialect.translate(gathered, file=str(path), defines={**defines, "NEVER": "1"})
    if cuda_compiler.available() is None:
        with pytest.raises(CompileError) as raised:
            ptx(gathered, BROKEN="nothing", LAST="int c = nowhere;", TABLE='"table.inc"')
        result = re.findall(r'(\w+\.\w+)\((\d+)\): error: identifier "(\w+)"', raised.value.log)
        assert result == [("b.h", "4", "nothing"), ("user.cl", "16", "nowhere")]


def test_a_missing_header_is_named_where_it_is_included() -> None:
    text = "/* of\n   two lines */\n\n#include NAME(absent.h)\n#include NAME(later.h)\nint x;\n"
    with pytest.raises(CompileError, match=r"f\.cl:4: #include 'absent\.h'"):
        dialect.translate(dialect.gather(text, "f.cl", (), {"NAME(x)": "#x"}), file="f.cl", defines={"NAME(x)": "#x"})


@pytest.mark.parametrize("header", ["cuda_relational.h", "cuda_integer.h", "cuda_math.h"])
def test_every_function_of_a_header_asks_for_it(header: str) -> None:
    """Texts get the prelude's headers whose names they have: none of their functions may be missing from the pattern."""
    text = (Path(dialect.__file__).parent / "preludes" / header).read_text()
    text = re.sub(r"^#define .*(?:\n.*(?<=\\))*", "", text.replace("\\\n", " "), flags=re.MULTILINE)
    names = set(re.findall(r"\b(?:EACH_\w+|SAME_\d|FLOAT_\d|RELATION_\d|UPSAMPLE|DISTANCE)\((\w+)", text))
    names |= {part + name for name in re.findall(r"\bNATIVE_\w+\((\w+)", text) for part in ("native_", "half_")}
    names |= set(re.findall(r"INLINE [\w<>, ]+[ >*](\w+)\(", text))
    inner = {"root", "portatile_smooth", "T", "short", "ushort", "int", "uint", "long", "ulong"}
    assert len(names) > 10
    for name in sorted(names - inner):
        translation = dialect.translate(f"kernel void k(global float *x) {{ x[0] = {name}(x[1]); }}")
        assert f'"portatile/{header}"' in translation.text, name
