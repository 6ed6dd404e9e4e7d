"""The translation of OpenCL C to CUDA C++: records, messages, lines, quality of the code. Results are the battery's business."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from dataclasses import replace
from pathlib import Path

import pytest

from portatile import dialect, program
from portatile.device import excerpts
from portatile.device.cuda import compiler as cuda_compiler
from portatile.errors import CompileError
from portatile.records import Entry, Parameter, Source
from support.compiling import ptx

needs_nvrtc = pytest.mark.skipif(cuda_compiler.available() is not None, reason=str(cuda_compiler.available()))


def test_entries_describe_parameters() -> None:
    """Names, kinds and types as declared, in OpenCL C's short form; the work-group that the text requires."""
    text = """
    typedef float real; typedef __global const real *input; typedef struct { int n; } item; typedef unsigned long int wide;
    __kernel __attribute__((reqd_work_group_size(W * 4, (8 + 8) / 2, 1)))
    void first(input a, const __global unsigned char *restrict b, __local float4 *c, __constant real *d, unsigned e, wide f, real g, item h,
               long int i, __local int (*j)[4], __global float k[], volatile __global atomic_uint *l)
    {}
    kernel void second(void) {}
    void third(__global int *p) {}
    __kernel void round(float x) {}
    """
    parameters = (
        Parameter("a", "buffer", "float*"),
        Parameter("b", "buffer", "uchar*"),
        Parameter("c", "local", "float4*"),
        Parameter("d", "buffer", "float*"),
        Parameter("e", "scalar", "uint"),
        Parameter("f", "scalar", "ulong"),
        Parameter("g", "scalar", "float"),
        Parameter("h", "scalar", "item"),
        Parameter("i", "scalar", "long"),
        Parameter("j", "local", "int*"),
        Parameter("k", "buffer", "float*"),
        Parameter("l", "buffer", "uint*"),
    )
    assert dialect.translate(text, defines={"W": "16"}).entries == (
        Entry("first", "first", parameters, (64, 8, 1)),
        Entry("second", "second"),
        Entry("round", "portatile_round", (Parameter("x", "scalar", "float"),)),
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("\n#error no such size", r"user\.cl:2: #error no such size"),
        ("\n\nvoid f() { int a[3; }", r"user\.cl:3: unexpected '}'"),
        ("void f() {\n if (1) {\n}", r"user\.cl:1: '{' is never closed"),
        ('\n#include "other.h"\n', r"user\.cl:2: #include 'other\.h': no such file"),
        ("\n#if (\n#endif", r"user\.cl:2: "),
        ("__kernel void k(\n  float *p) {}", r"user\.cl:2: the pointer 'p' of a kernel must be __global, __constant or __local"),
        ("__kernel void k(__global float *) {}", r"user\.cl:1: a parameter of a kernel needs a name"),
        (
            "\n\n__constant float *p = (float[]){1, 2};",
            r"user\.cl:3: an array literal outside of functions is not supported on CUDA; declare",
        ),
        ("typedef struct { int n;\n  float data[]; } list;", r"user\.cl:2: 'data', an array without a size .* write data\[1\]"),
        (
            "#define O __attribute__((overloadable))\nO int f(__global int *p) { return *p; }\nO int f(__local int *q) { return *q + 1; }",
            r"user\.cl:3: this overload of 'f' differs from that at user\.cl:2 in its body, .* give it a name of its own",
        ),
        (
            "\nint f(int x) { return _Generic(x, int: 1); }",
            r"user\.cl:2: _Generic: portatile has no selections by type on CUDA.*overloadable",
        ),
        ("\n__kernel void k(read_only pipe int p) {}", r"user\.cl:2: pipe: portatile has no pipes: pass the values in a buffer"),
        ("__kernel __attribute__((reqd_work_group_size(N, 1, 1))) void k() {}", r"user\.cl:1: 'N' is not a constant number"),
        ("__kernel __attribute__((reqd_work_group_size(8, 1))) void k() {}", r"reqd_work_group_size takes three positive numbers"),
    ],
)
def test_messages_name_file_and_line(text: str, message: str) -> None:
    """What the translation itself refuses."""
    with pytest.raises(CompileError, match=message):
        dialect.translate(text, file="user.cl")


@needs_nvrtc
def test_compiler_messages_name_the_users_lines() -> None:
    """Behind comments, macros over several lines, conditions and pragmas."""
    lines = [
        "// one",
        "/* two",
        "three */",
        "#define M(a, \\",
        "  b) a + b",
        "#if 0",
        "x",
        "#endif",
        "#pragma OPENCL EXTENSION cl_khr_fp64 : enable",
    ]
    lines += [
        "__kernel void k(__global int *o)",
        "{",
        "  int i = M(1,",
        "    2);",
        "#pragma unroll",
        "  for (;;) {}",
        "  undeclared = i;",
        "}",
    ]
    lines += ["__kernel void l(__global int *o) { *o = missing; }"]
    with pytest.raises(CompileError) as raised:
        ptx("\n".join(lines))
    assert re.findall(r"user\.cl\((\d+)\): error: identifier \"(\w+)\"", raised.value.log) == [("16", "undeclared"), ("18", "missing")]


@needs_nvrtc
def test_errors_inside_the_prelude_are_told_of_the_users_lines() -> None:
    """A built-in function's own template fails; the message names the call, in OpenCL C's words, once, and nothing of the prelude."""
    lines = ["float4 wide(float3 v)", "{", "  return convert_float4(v);", "}", "", "__kernel void k(__global float *o)", "{"]
    lines += ["  o[0] = wide((float3)(1)).x;", "  o[1] = as_double(o[2]);", "  o[3] = max((int2)(1), (float4)(2)).x;"]
    lines += ["  float4 v = {1, 2, 3};", "  o[4] = pow(2, 3);", "}"]
    source = Source("user.cl", "\n".join(lines))
    with pytest.raises(CompileError) as raised:
        program.build(source, cuda_compiler.CudaTarget("sm_90", "ptx"), None)
    log = raised.value.log
    assert sorted(re.findall(r"^user\.cl\((\d+)\): error", log, re.MULTILINE)) == ["10", "11", "12", "3", "9"]
    assert "(int2, float4)" in log
    assert 'no instance of constructor "float4" matches' in log
    assert "portatile/" not in log
    assert "ocl" not in log


@needs_nvrtc
def test_excerpts_are_the_users_lines(tmp_path: Path) -> None:
    """With comments, and without what the dialect made of a line; the caret stays under its word, if that is there."""
    (tmp_path / "header.h").write_text("inline int helper(int a) { return a + nowhere; } // a header's comment\n")
    lines = [
        '#include "header.h"',
        "#define TWICE(x) (2 * (x) + gone)",
        "kernel void f(global float *y, int n) {",
        "\tfloat4 v = (float4)(1.0f, 2.0f, 3.0f, 4.0f); // fine",
        "\tv.xy = v.zw * foo; /* why */",
        "\ty[n] = TWICE(v.x); // the macro",
        "}",
    ]
    source = Source("user.cl", dialect.gather("\n".join(lines), "user.cl", [tmp_path]))
    with pytest.raises(CompileError) as raised:
        program.build(source, cuda_compiler.CudaTarget("sm_90", "ptx"), None)
    result = raised.value.log.splitlines()
    for line, caret in ((lines[4], lines[4].index("foo")), ((tmp_path / "header.h").read_text().rstrip(), None)):
        assert f"  {line}" in result
        below = result[result.index(f"  {line}") + 1]
        assert below.strip() == "^"
        if caret is not None:
            assert below == "  " + "\t" + " " * (caret - 1) + "^"
    assert result[result.index(f"  {lines[5]}") + 1].strip() != "^", "what the caret was under is the macro's"


def test_an_excerpt_of_a_long_line_is_what_is_around_the_place() -> None:
    text = "float x = " + "1 + " * 100 + "wrong" + " + 1" * 100 + ";"
    _, excerpt, caret = excerpts.restored(f"error: k.cl:1:{text.index('wrong') + 1}: undeclared", text, "k.cl").splitlines()
    assert len(excerpt) < 220
    assert excerpt[caret.index("^") :].startswith("wrong")
    assert excerpt.startswith("  ...")
    assert excerpt.endswith("...")


def test_messages_without_an_excerpt_get_one() -> None:
    """As PoCL's; the place in a line is under the caret."""
    text = "kernel void k(global int *x) {\n\tx[0] = gone;\n}"
    assert excerpts.restored("error: k.cl:2:9: undeclared\nwarning: other.h:1:1: odd", text, "k.cl").splitlines() == [
        "error: k.cl:2:9: undeclared",
        "  \tx[0] = gone;",
        "  \t       ^",
        "warning: other.h:1:1: odd",
    ]


def test_messages_without_a_cause_are_kept() -> None:
    log = 'portatile/cuda_math.h(7): error: of our own\n  x\n  ^\n\n1 error detected in the compilation of "user.cl".'
    assert "of our own" in dialect.readable(log)
    assert dialect.readable("no diagnostics at all") == "no diagnostics at all"


@needs_nvrtc
def test_what_older_compilers_take_with_a_warning() -> None:
    """Pointers of another type in assignments to parameters and in functions of halves: errors in newer Clangs, warnings in PoCL 3's."""
    text = """__kernel void k(__global float *a, __global const ushort *h, __global ushort *w, uint n) {
        a = (__global char *)a + n;
        a[0] = vload_half(0, h) + vload_half4(0, h).w;
        vstore_half(a[1], 0, w);
        vstore_half2_rtz((float2)(1), 0, w);
    }"""
    assert ptx(text).count("st.global") >= 3


@needs_nvrtc
def test_single_precision_constants() -> None:
    """-cl-single-precision-constant takes double arithmetic out of a text that has no suffixes."""
    source = Source("k.cl", "__kernel void k(__global float *a) { a[0] = 1.5 * a[1] + .5e-3 + 1e3 + 0x1p-2 + 1u; }")
    target = cuda_compiler.CudaTarget("sm_90", "ptx")
    assert b".f64" in program.build(source, target, None).data
    assert b".f64" not in program.build(replace(source, options=("-cl-single-precision-constant",)), target, None).data


def test_files_in_other_encodings(tmp_path: Path) -> None:
    path = tmp_path / "k.cl"
    for raw in (b"\xef\xbb\xbf// caf\xe9\r\nint i;", b"// caf\xe9\rint i;", "\ufeff// caf\u00e9\nint i;".encode()):
        path.write_bytes(raw)
        assert dialect.read_text(path) == "// caf\u00e9\nint i;"


def test_headers_of_pyopencl() -> None:
    """They are found without -I, as pyopencl itself finds them."""
    text = dialect.gather("#include <pyopencl-complex.h>\ncfloat_t z;", "k.cl")
    assert "PYOPENCL_COMPLEX_ALIGNMENT" in text
    assert dialect.translate(text).text


@needs_nvrtc
def test_strange_file_name() -> None:
    """Quotes and backslashes in the name of the file survive #line."""
    translation = dialect.translate("__kernel void k(__global int *o) { nothing; }", file='a "b"\\c.cl')
    with pytest.raises(CompileError, match=r'a "b"\\c\.cl\(1\)'):
        cuda_compiler.CudaTarget("sm_90").compile(Source("x", translation.text, (), dialect.NVRTC_OPTIONS))


def test_switches_are_the_same_in_both_preludes() -> None:
    """Every documented switch is defined by both, and each prelude's comment table is complete."""
    here = dialect.opencl_to_cuda._PRELUDES
    opencl, cuda = ((here / name).read_text() for name in ("opencl.h", "cuda.h"))
    public = {name for name in re.findall(r"^#define ([A-Z][A-Z0-9_]+)", opencl, re.MULTILINE) if name not in ("PORTATILE_OPENCL",)}
    public = {name for name in public if not re.match(r"PORTATILE_(COPY|LOADERS|SHUFFLES)", name)}
    assert len(public) > 15
    assert public <= set(re.findall(r"^#define ([A-Z][A-Z0-9_]+)", cuda, re.MULTILINE))
    table = opencl[: opencl.index("*/")]
    documented = {
        name for name in public if re.search(rf"\b{name}\b", table) or re.search(rf"\b{re.sub('_(8|16)(_IF)?$', '_4', name)}\b", table)
    }
    assert documented == public


def test_prelude_macros_do_not_reach_the_user() -> None:
    """The macros that the prelude needs for itself end before the user's text."""
    text = dialect.translate("int VECTOR, INLINE, CALL;").text
    prelude = text[: text.index('#line 1 "kernel.cl"')]
    defined = re.findall(r"^#define (\w+)", prelude, re.MULTILINE)
    assert defined
    assert set(defined) <= set(re.findall(r"^#undef (\w+)", prelude, re.MULTILINE))


@needs_nvrtc
def test_vector_accesses_stay_wide() -> None:
    """128-bit loads and stores survive operators, functions, local memory and compound assignment."""
    text = ptx("""
    float4 scaled(float4 v, float f) { return v * f + (float4)(1, 2, 3, 4); }
    __kernel __attribute__((reqd_work_group_size(64, 1, 1)))
    void k(__global const float4 *restrict a, __global float4 *b, __constant float4 *c, __local float4 *l, __global double2 *d)
    {
      __local float4 t[64];
      int i = get_global_id(0), j = get_local_id(0);
      t[j] = a[i]; l[j] = scaled(a[i], 2);
      barrier(CLK_LOCAL_MEM_FENCE);
      b[i] += fma(t[63 - j], l[63 - j], c[j]);
      d[i] *= 2.0;
    }""")
    for access, count in {"ld.global.nc.v4": 2, "ld.global.v4": 1, "st.global.v4": 1, "st.shared.v4": 2, "ld.shared.v4": 2}.items():
        assert len(re.findall(rf"{re.escape(access)}\.[fu]32", text)) == count, access
    assert re.search(r"ld\.global\.v2\.[fu]64", text)
    assert re.search(r"st\.global\.v2\.[fu]64", text)
    assert ".maxntid 64" in text
    assert "%ntid" not in text  # the required size is a constant


@needs_nvrtc
def test_min_groups_bounds_registers() -> None:
    """MIN_GROUPS reaches the assembler."""
    assert re.search(
        r"\.minnctapersm 3",
        ptx("__kernel __attribute__((reqd_work_group_size(64, 1, 1))) MIN_GROUPS(3) void k(__global int *o) { *o = 1; }"),
    )


@needs_nvrtc
def test_asynchronous_copies_need_their_architecture() -> None:
    """cp.async where it exists; plain copies before sm_80, from the same text."""
    text = """__kernel void k(__global const float4 *a, __global float4 *o) { __local float4 t[32]; int i = get_local_id(0);
    COPY_ASYNC_16(t + i, a + i); COPY_ASYNC_COMMIT(); COPY_ASYNC_WAIT(0); barrier(CLK_LOCAL_MEM_FENCE); o[i] = t[31 - i]; }"""
    assert "cp.async.cg.shared.global" in ptx(text, "sm_80")
    older = ptx(text, "sm_75")
    assert "cp.async" not in older
    assert "ld.global.v4" in older


def test_version_follows_the_files() -> None:
    """It is a content hash, the same at every call."""
    assert re.fullmatch(r"[0-9a-f]{32}", dialect.VERSION)
    assert dialect.version._version() == dialect.VERSION


@pytest.mark.parametrize("path", sorted(Path(dialect.__file__).parent.rglob("*.py")), ids=lambda path: path.stem)
def test_version_reads_everything_but_comments_and_docstrings(path: Path) -> None:
    """What Python makes of a file without them is what it makes of the file."""
    text = path.read_text(encoding="utf-8")
    bare = dialect.version.without_comments(text, ".py")
    assert ast.dump(without_docstrings(ast.parse(bare))) == ast.dump(without_docstrings(ast.parse(text)))
    assert not any(token.type == tokenize.COMMENT for token in tokenize.generate_tokens(io.StringIO(bare).readline))


def without_docstrings(tree: ast.Module) -> ast.Module:
    """The tree without statements that are strings."""
    for node in ast.walk(tree):
        if isinstance(getattr(node, "body", None), list):
            said = [one for one in node.body if isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant)]  # type: ignore[attr-defined]
            node.body = [one for one in node.body if one not in said]  # type: ignore[attr-defined]
    return tree


@pytest.mark.parametrize(
    ("suffix", "one", "other", "same"),
    [
        (".py", 'def f():\n    """Says."""\n    return 1  # one\n', "def f():\n\n    return 1\n", True),
        (".py", 'x = f(\n    "# no comment",\n)\n', 'x = f(\n    "# another",\n)\n', False),
        (".py", 'x = (\n    """a"""\n)\n', 'x = (\n    """b"""\n)\n', False),
        (".h", "/* why\n   so */ int x; // y\n", "  int x;\n", True),
        (".h", 'asm("// %0");\n', 'asm("// %1");\n', False),
        (".h", "#define A 1\n", "#define A 2\n", False),
    ],
)
def test_version_follows_what_compiles(suffix: str, one: str, other: str, same: bool) -> None:
    bare = [dialect.version.without_comments(text, suffix).strip() for text in (one, other)]
    assert (bare[0] == bare[1]) == same


@needs_nvrtc
def test_local_arrays_are_aligned_for_wide_accesses() -> None:
    """16 bytes at least, more where the element or the text asks for more."""
    text = ptx("""
    typedef uint word; typedef struct { float4 v; } row;
    __kernel void k(__global float *o, int n)
    {
      __local char a[5]; __local word b[6]; __local float8 c[2];
      __local int d[7] __attribute__((aligned(64))); __local row e[3]; __local double4 f;
      a[n] = 1; b[n] = 2; c[n] = 3; d[n] = 4; e[n].v = 5; f = 6;
      barrier(CLK_LOCAL_MEM_FENCE);
      o[0] = a[n + 1] + b[n + 1] + c[n + 1].x + d[n + 1] + e[n + 1].v.x + f.x;
    }""")
    sizes = {int(size): int(align) for align, size in re.findall(r"\.shared \.align (\d+) \.b8 \S+\[(\d+)\]", text)}
    assert sizes == {5: 16, 24: 16, 64: 32, 28: 64, 48: 16, 32: 32}


@needs_nvrtc
def test_images_of_every_shape_compile() -> None:
    """Reads with and without a sampler, writes and queries; each reads its own kind of texture."""
    text = ptx("""
    __constant sampler_t s = CLK_ADDRESS_REPEAT | CLK_NORMALIZED_COORDS_TRUE | CLK_FILTER_LINEAR;
    __kernel void k(read_only image1d_t a, read_only image1d_array_t b, read_only image1d_buffer_t c, read_only image2d_t d,
                    read_only image2d_array_t e, read_only image3d_t f, sampler_t t, __global float4 *o, __global int4 *p)
    {
      int i = get_global_id(0);
      o[0] = read_imagef(a, s, 0.5f) + read_imagef(b, s, (float2)(0.5f, 1)) + read_imagef(c, i) + read_imagef(d, s, (float2)(0.5f));
      o[1] = read_imagef(e, t, (float4)(0.5f)) + read_imagef(f, s, (float4)(0.5f)) + read_imagef(a, i) + read_imagef(f, t, (int4)(i));
      p[0] = read_imagei(b, t, (int2)(i)) + read_imagei(f, t, (int4)(i)) + get_image_dim(f) + get_image_depth(f) + get_image_width(a);
      p[1] = (int)get_image_array_size(e) + (int)get_image_array_size(b) + get_image_height(e) + get_image_dim(e).x;
    }
    __kernel void w(write_only image1d_t a, write_only image1d_array_t b, write_only image1d_buffer_t c, write_only image2d_array_t e,
                    write_only image3d_t f)
    {
      int i = get_global_id(0);
      write_imagef(a, i, (float4)(1)); write_imagei(b, (int2)(i), (int4)(2)); write_imagef(c, i, (float4)(3));
      write_imageui(e, (int4)(i), (uint4)(4)); write_imagef(f, (int4)(i), (float4)(5));
    }""")
    assert set(re.findall(r"tex\.(\w+)\.v4\.", text)) == {"1d", "2d"}  # of a buffer, of two dimensions; the others are read from memory
