"""A user's own kernel without a device: what it is made from, what is refused and how; and as CUDA."""

from __future__ import annotations

import itertools
import runpy
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import portatile
from portatile import device as devices
from portatile import program
from portatile.device.cuda import compiler as cuda_compiler
from portatile.dialect.signature import signature
from portatile.errors import ArgumentError, CompileError, LaunchError, PortatileError, SpaceError, UnknownNameError
from portatile.kernel import Kernel
from portatile.kernel.expression import Expression, identity
from portatile.records import DeviceInfo, Launch
from portatile.workload import Workload
from support.checking import check
from support.kernels import ADD, N, add
from support.ptx_machine.device import PtxDevice
from support.seeds import new_seed

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("kernel_*.py"))

needs_nvrtc = pytest.mark.skipif(cuda_compiler.available() is not None, reason=str(cuda_compiler.available()))


@pytest.fixture(scope="module")
def info() -> DeviceInfo:
    return PtxDevice().info


def launch(kernel: Kernel, info: DeviceInfo, **config: Any) -> Launch:
    (step,) = kernel.plan(kernel.problem(), config, info).steps
    assert isinstance(step, Launch)
    return step


@pytest.mark.parametrize("size", ["a.size / work", lambda a, work: a.size // work])
def test_sizes_read_numbers_only(size: Any) -> None:
    with pytest.raises(ArgumentError, match="read a, which is more than a number"):
        add(global_size=size)


def test_numbers_that_c_does_not_spell_are_no_values() -> None:
    for value in (float("nan"), float("inf"), np.float32("-inf")):
        with pytest.raises(ArgumentError, match="INFINITY"):
            add(constants={"limit": value})


def test_negative_integers_have_distances() -> None:
    kernel = add()
    one, other = (kernel.problem({"n": n}) for n in (-1, 1000))
    assert Workload.distance(kernel, one, other) == Workload.distance(kernel, other, one) > 0


def test_a_kernel_is_a_workload(info: DeviceInfo) -> None:
    kernel = add()
    assert kernel.name == "kernel:add"
    assert [(operand.name, operand.role) for operand in kernel.operands] == [("a", "in"), ("b", "in"), ("c", "inout")]
    assert kernel.space(kernel.problem(), info).count() == 4
    assert kernel.default(kernel.problem(), info) == {"block": 32, "work": 1}
    step = launch(kernel, info, block=64, work=2)
    assert (step.global_size, step.local_size) == ((512, 1, 1), (64, 1, 1))
    assert step.source.defines == (("block", "64"), ("work", "2"))
    assert [(arg.name, arg.kind, arg.role) for arg in step.args[:3]] == [
        ("a", "buffer", "in"),
        ("b", "buffer", "in"),
        ("c", "buffer", "inout"),
    ]
    assert (step.args[3].dtype, step.args[3].value) == ("int32", N)


def test_a_text_may_be_a_file_with_headers(tmp_path: Path, info: DeviceInfo) -> None:
    (tmp_path / "real.h").write_text("typedef float real;\n")
    (tmp_path / "add.cl").write_text('#include "real.h"\n' + ADD.replace("float", "real"))
    for source in (tmp_path / "add.cl", str(tmp_path / "add.cl")):
        kernel = add(source=source)
        assert "typedef float real" in launch(kernel, info, block=32, work=1).source.text
    (tmp_path / "headers").mkdir()
    (tmp_path / "real.h").rename(tmp_path / "headers" / "real.h")
    with pytest.raises(CompileError, match=r"add\.cl:1: #include"):
        add(source=tmp_path / "add.cl")
    for options in (["-I", str(tmp_path / "headers"), "-cl-mad-enable"], [f"-I{tmp_path / 'headers'}", "-cl-mad-enable"]):
        source = launch(add(source=tmp_path / "add.cl", options=options), info, block=32, work=1).source
        assert "typedef float real" in source.text
        assert source.options == ("-cl-mad-enable",)
    with pytest.raises(ArgumentError, match="cannot be read"):
        add(source=tmp_path / "sub.cl")


# What is refused, with a message that names what is wrong


@pytest.mark.parametrize(
    ("changes", "kind", "message"),
    [
        ({"name": "ad"}, UnknownNameError, r"'ad'. Did you mean 'add'"),
        ({"source": ADD.replace("kernel void", "__global__ void")}, ArgumentError, "add.cl:1: __global__ is CUDA C"),
        ({"source": ADD.replace("int n)", "int n")}, CompileError, "add.cl:1"),
        ({"source": ADD.replace("global const float *a", "const float *a")}, CompileError, "add.cl:1: the pointer 'a'"),
        ({"source": "\n" + ADD.replace("int n", "image2d_t n")}, ArgumentError, "n is an image2d_t: pass a NumPy array"),
        ({"source": ADD.replace("int n", "float4 n")}, ArgumentError, "n is 1000; the kernel takes 4 numbers of type float32"),
        ({"parameters": {"n": [1], "block": [32], "work": [1]}}, ArgumentError, "'n' is an argument of add"),
        ({"parameters": {"bl ock": [1]}}, ArgumentError, "'bl ock' cannot be #defined"),
        ({"parameters": {"block": [], "work": [1]}}, ArgumentError, "'block' has no values"),
        ({"parameters": {"block": "32", "work": [1]}}, ArgumentError, "'block' must have a list"),
        ({"parameters": [32, 64]}, ArgumentError, "must be a dict of names and their values"),
        ({"parameters": {"int": [1, 2], "block": [32], "work": [1]}}, ArgumentError, "'int' is a word of OpenCL C"),
        ({"parameters": {"block": [32, 32], "work": [1]}}, SpaceError, "lists a value twice"),
        ({"parameters": {"block": [None], "work": [1]}}, ArgumentError, "None is a NoneType"),
        ({"constants": {"block": 1}}, ArgumentError, "a parameter and a constant"),
        ({"global_size": "n / wrok"}, UnknownNameError, "global_size='n / wrok':.*Did you mean 'work'"),
        ({"global_size": "n /"}, ArgumentError, "not an expression"),
        ({"global_size": None}, ArgumentError, "global_size=None must be a number"),
        ({"local_size": (16, 1, 1, 1)}, ArgumentError, "must be a number, an expression, a callable, or up to three of these"),
        ({"local_size": lambda blok: blok}, UnknownNameError, "local_size=a lambda:.*'blok'"),
        ({"local_size": lambda **all: 1}, ArgumentError, "without \\* and \\*\\*"),
        ({"local_size": None}, ArgumentError, "local_size is missing"),
        ({"constraints": ["blok < 64"]}, UnknownNameError, "'blok'"),
        ({"constraints": [lambda p: p["block"] < 64]}, UnknownNameError, "as in 'lambda block: ...': 'p'"),
        ({"constraints": ["block <"]}, SpaceError, "not an expression"),
        ({"reference": lambda a, d: a}, UnknownNameError, "argument of the reference 'd'"),
        ({"reference": lambda a, block: a}, ArgumentError, "reads the parameter .block."),
        ({"options": "-cl-mad-enable"}, ArgumentError, "such as"),
        ({"reference": np.zeros(3)}, ArgumentError, r"the reference gives c shape \(3,\), the argument has \(1000,\)"),
        ({"reference": {"d": np.zeros(N)}}, UnknownNameError, "output in the reference 'd'"),
        ({"reference": {"c": None}}, ArgumentError, "every output unchecked"),
        ({"rtol": -1}, ArgumentError, "rtol=-1"),
        ({"rtol": "small"}, ArgumentError, "rtol='small' must be a number"),
        ({"atol": {"a": 1.0}}, UnknownNameError, "output in atol 'a'"),
        ({"roles": {"a": "out"}}, ArgumentError, "declares it const"),
        ({"roles": {"c": "write"}}, ArgumentError, "must be one of in, out, inout"),
        ({"roles": {"d": "out"}}, UnknownNameError, "'d'"),
        ({"roles": {"c": "in"}}, ArgumentError, "writes none of its arguments"),
        ({"default": {"blok": 32}}, UnknownNameError, "'blok'. Did you mean 'block'"),
        ({"flops": "block"}, UnknownNameError, "flops='block'"),
        ({"options": "-w"}, ArgumentError, "must be a list"),
    ],
)
def test_mistakes_in_a_definition(changes: dict[str, Any], kind: type[PortatileError], message: str) -> None:
    with pytest.raises(kind, match=message):
        add(**changes)


A = np.zeros(N, np.float32)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((A, A, A), r"takes 4 arguments, got 3"),
        ((A, A, A, N, 5), r"takes 4 arguments, got 5"),
        ({"a": A, "b": A, "c": A}, "no value for n"),
        ({"a": A, "b": A, "c": A, "n": N, "m": 1}, "unknown argument of add 'm'"),
        ((A, np.zeros(2 * N, np.float32)[::2], A, N), r"b is not contiguous in memory; pass numpy.ascontiguousarray\(b\)"),
        ((A, np.zeros((N, 2), np.float32).T, A, N), "b is not contiguous"),
        ((A, A.astype(np.float64), A, N), r"b has dtype float64, but the kernel declares float\*: pass b.astype\('float32'\)"),
        ((A, A.astype(object), A, N), "b has dtype object, for which OpenCL C has no type"),
        ((A, A.astype(">f4"), A, N), "b has dtype >f4"),
        ((A, A.tolist(), A, N), "b is a pointer to float: pass a NumPy array, not a list"),
        ((A, A[:0], A, N), "b has no elements"),
        ((A, A, A, 2**31), "n is 2147483648, too large"),
        ((A, A, A, 0.5), "n is 0.5; the kernel takes one number of type int32"),
        ((A, A, A, A), "the kernel takes one number"),
    ],
)
def test_arguments_that_do_not_fit(arguments: Any, message: str) -> None:
    with pytest.raises((ArgumentError, UnknownNameError), match=message):
        add(arguments=arguments)


@pytest.mark.parametrize("local_size", ["block, 1, 1, 1", lambda block: "64"])
def test_a_work_group_that_is_no_work_group(local_size: Any, info: DeviceInfo) -> None:
    kernel = add(local_size=local_size)
    with pytest.raises(ArgumentError, match=r"^local_size=.* must be one to three numbers"):
        kernel.default(kernel.problem(), info)


def test_vectors_and_local_memory_that_do_not_fit() -> None:
    text = "kernel void norms(global const float4 *p, global float *d, local float *s) { d[get_global_id(0)] = dot(p[0], p[0]); }"

    def norms(**arguments: Any) -> Kernel:
        given = {"p": np.ones((5, 4), np.float32), "d": np.zeros(5, np.float32), "s": "block"}
        return Kernel(text, "norms", {**given, **arguments}, {"block": [5]}, global_size=5, local_size="block")

    norms(p=np.ones(20, np.float32))
    with pytest.raises(ArgumentError, match="p has 19 numbers, not a multiple of the 4 of a float4"):
        norms(p=np.ones(19, np.float32))
    with pytest.raises(ArgumentError, match=r"s of norms is local memory: pass its number of elements, .* not a ndarray"):
        norms(s=np.zeros(5, np.float32))


def test_a_kernel_is_tuned_on_one_device() -> None:
    for several in ("all", ["opencl:0:0"]):
        with pytest.raises(ArgumentError, match="one device at a time"):
            portatile.tune(add(), device=several)  # type: ignore[call-overload]


def test_no_legal_configuration_says_what_stands_in_the_way(info: DeviceInfo) -> None:
    kernel = add(constraints=["block < 10"])
    with pytest.raises(SpaceError, match="none of 4 fulfils all of: block < 10"):
        kernel.default(kernel.problem(), info)
    kernel = add(parameters={"block": [2**20], "work": [1]})
    with pytest.raises(SpaceError, match=rf"at most {info.max_work_group_size} work-items.*local_size='block' within the device's limits"):
        kernel.default(kernel.problem(), info)
    kernel = add(default={"block": 48, "work": 1})
    with pytest.raises(SpaceError, match=r"default configuration is not legal.*48 is not one of"):
        kernel.default(kernel.problem(), info)


def test_a_work_group_too_large_for_the_device_is_not_legal(info: DeviceInfo) -> None:
    kernel = add(parameters={"block": [32, 1 << 20], "work": [1]}, local_size=lambda block: (1, block))
    assert [config["block"] for config in kernel.space(kernel.problem(), info)] == [32]


def test_a_size_of_nothing_is_a_launch_that_fails(info: DeviceInfo) -> None:
    with pytest.raises(LaunchError, match="gives 0; sizes must be positive"):
        launch(add(global_size="n // 2000"), info, block=32, work=1)
    with pytest.raises(ArgumentError, match="one to three numbers"):
        launch(add(global_size=lambda n: "many"), info, block=32, work=1)
    with pytest.raises(ArgumentError, match="ZeroDivisionError"):
        launch(add(global_size="n // (work - 1)"), info, block=32, work=1)


# The work-group that the text requires


def test_the_text_decides_the_work_group(info: DeviceInfo) -> None:
    text = ADD.replace("void add", "__attribute__((reqd_work_group_size(block / 2, 1, 1))) void add")
    kernel = add(source=text, local_size=None)
    assert launch(kernel, info, block=64, work=1).local_size == (32, 1, 1)
    assert launch(add(source=text, local_size="block // 2"), info, block=64, work=1).local_size == (32, 1, 1)
    with pytest.raises(ArgumentError, match=r"local_size is \(64, 1, 1\), but the text says reqd_work_group_size\(32, 1, 1\)"):
        launch(add(source=text), info, block=64, work=1)


def test_a_text_that_refuses_a_configuration_is_read_with_another() -> None:
    text = "#if block * work < 64\n#error too few\n#endif\n" + ADD
    assert add(source=text).arguments.called == ("a", "b", "c", "n")
    with pytest.raises(CompileError, match=r"add\.cl:2: #error too few"):
        add(source=text.replace("< 64", "> 0"))


# Heads


def test_heads_of_kernels_are_read() -> None:
    text = """
    #define REAL double
    typedef float4 vec;
    int helper(global int *x) { return x[0]; }
    kernel void other(global int *x);
    __kernel __attribute__((reqd_work_group_size(BX, 2 * BY, 1)))
    void head(__global const REAL *restrict a, __constant vec *b, global REAL *const c, local vec *d, const unsigned int n, long m) { }
    """
    head = signature(text, "head", defines={"BX": "8", "BY": "4"})
    kinds = [(p.name, p.kind, p.type) for p in head.parameters]
    buffers = [("a", "buffer", "double*"), ("b", "buffer", "float4*"), ("c", "buffer", "double*")]
    assert kinds == [*buffers, ("d", "local", "float4*"), ("n", "scalar", "uint"), ("m", "scalar", "long")]
    assert head.read_only == {"a", "b"}
    assert head.work_group == (8, 8, 1)
    assert signature("kernel void f(void) {}", "f").parameters == ()


def test_local_memory_is_counted_in_elements(info: DeviceInfo) -> None:
    text = "kernel void f(global float *x, local float3 *t, local double *u) { x[0] = 1; }"
    kernel = Kernel(text, "f", (np.zeros(4, np.float32), "2 * w", lambda w: w + 1), {"w": [4]}, global_size=1, local_size=1)
    assert [arg.value for arg in launch(kernel, info, w=4).args[1:]] == [8 * 16, 5 * 8]
    assert kernel.arguments.called == ("x",)
    with pytest.raises(UnknownNameError, match="elements of t"):
        Kernel(text, "f", (np.zeros(4, np.float32), "2 * v", 1), {"w": [4]}, global_size=1, local_size=1)


# Expressions


def test_expressions_read_names_and_calculate() -> None:
    values = {"n": 100, "work": 8}
    assert Expression.of("ceil(n / work) * work", "size")(values) == 104
    assert Expression.of(("n", 2, lambda work: work), "size")(values) == (100, 2, 8)
    assert Expression.of("max(x for x in (n, work))", "size").reads == ("n", "work")
    with pytest.raises(ArgumentError, match="cannot be computed for n=100: TypeError"):
        Expression.of("n + 'a'", "size")(values)
    with pytest.raises(UnknownNameError, match="'open'"):
        Expression.of("open('file')", "size").check(values, "size")


def test_the_identity_of_a_callable_follows_what_it_does() -> None:
    def scaled(factor: int) -> Callable[[int], int]:
        return lambda n: factor * n

    assert identity(scaled(2)) == identity(scaled(2)) != identity(scaled(3))
    assert identity(lambda n: n + 1) == identity(lambda n: n + 1) != identity(lambda n: n + 2)
    assert identity(lambda n: abs(n)) != identity(lambda n: int(n))


# As CUDA, without a GPU


class CapturedError(Exception):
    """Instead of tuning."""


def example(path: Path, monkeypatch: pytest.MonkeyPatch) -> Kernel:
    """The kernel that an example is about to tune."""
    found: list[Kernel] = []

    def capture(kernel: Kernel, *_: object, **__: object) -> None:
        found.append(kernel)
        raise CapturedError

    monkeypatch.setattr(Kernel, "tune", capture)
    with pytest.raises(CapturedError):
        runpy.run_path(str(path))
    return found[0]


@needs_nvrtc
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_examples_compile_as_cuda(path: Path, monkeypatch: pytest.MonkeyPatch, info: DeviceInfo) -> None:
    """To machine code, assembler included, in the default and a random configuration."""
    kernel = example(path, monkeypatch)
    space = kernel.space(kernel.problem(), info)
    rng = np.random.default_rng(new_seed(path.stem))
    target = devices.backends()["cuda"].target("sm_90")
    for config in (kernel.default(kernel.problem(), info), space.sample(rng)):
        binary = program.build(launch(kernel, info, **config).source, target, None)
        assert binary.kind == "cubin"
        assert [entry.name for entry in binary.entries] == [kernel.entry]


@needs_nvrtc
def test_a_kernel_is_right_as_cuda() -> None:
    n = 77
    rng = np.random.default_rng(new_seed("cuda"))
    a, b = rng.random((2, n), np.float32)
    kernel = add(arguments=(a, b, np.zeros(n, np.float32), n), global_size="n / work")
    device = PtxDevice(limit=1_000_000)
    for block, work in itertools.product((32, 64), (1, 2)):
        verdict = check(device, kernel, kernel.problem(), {"block": block, "work": work}, rng)
        assert verdict.ok, verdict.message
    wrong = add(source=ADD.replace("+ b[i]", "- b[i]"), arguments=(a, b, np.zeros(n, np.float32), n))
    assert not check(device, wrong, wrong.problem(), {"block": 32, "work": 1}, rng).ok


def test_a_parameter_that_nothing_depends_on_warns() -> None:
    text = "// UNUSED\nkernel void f(global float *a) { a[get_global_id(0)] = W; }"
    given: dict[str, Any] = {"global_size": 4, "local_size": "group"}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Kernel(text, "f", (np.zeros(4, np.float32),), {"W": [1, 2], "group": [1, 2]}, **given)
        Kernel(text, "f", (np.zeros(4, np.float32),), {"V": [1, 2], "group": [1]}, constants={"W": "V"}, **given)
    with pytest.warns(UserWarning, match="depends on the parameter UNUSED"):
        Kernel(text, "f", (np.zeros(4, np.float32),), {"W": [1, 2], "group": [1, 2], "UNUSED": [1, 2]}, **given)


def test_an_error_in_the_reference_says_on_which_arguments() -> None:
    a, b, short = np.ones(N, np.float32), np.ones(N, np.float32), np.ones(3, np.float32)

    def reference(a: Any, b: Any) -> Any:
        if len(a) < N:
            raise ZeroDivisionError("not for so few")
        return a + b

    kernel = add(arguments=(a, b, np.zeros(N, np.float32), N), reference=reference, awkward=[(short, short, np.zeros(3, np.float32), 3)])
    kernel.expected(kernel.problem())
    with pytest.raises(ZeroDivisionError) as caught:
        kernel.expected(kernel.awkward(kernel.problem())[0])
    assert caught.value.__notes__ == ["in the reference of add, on the edge case a[3] b[3] c[3]"]


@pytest.mark.parametrize(
    ("body", "line"),
    [
        ("int l = 0, L = get_local_size(0); y[0] = L + l;", 3),
        ("const uint L = 3; y[0] = L;", 3),
        ("\n\nfloat *L = 0; y[0] = 1;", 5),
        ("local float L[7]; y[0] = 1;", 3),
        ("size_t L; y[0] = 1;", 3),
        ("for (int L = 0; L < 3; L++) y[0] = 1;", 3),
        ("typedef struct { int L; } T; T t; t.L = 3; y[0] = t.L;", 3),
        ("my_int L; y[0] = 1;", 3),
    ],
)
def test_a_parameter_called_like_a_variable_is_named(body: str, line: int) -> None:
    """The compiler complains of a number where a name should be, in lines that the user did not write so."""
    text = f"typedef int my_int;\nkernel void f(global float *y) {{\n{body}\n}}"
    for given in ({"parameters": {"L": [4, 8]}}, {"parameters": {}, "constants": {"L": 4}}):
        with pytest.raises(ArgumentError, match=rf"f.cl:{line}: 'L' is a variable of the text"):
            portatile.Kernel(text, "f", (np.zeros(9, np.float32),), **given, global_size=1, local_size=1)


@pytest.mark.parametrize(
    "text",
    [
        "kernel void f(global float *y) { int x = 3 * L, z = (int)L; y[L] = x == L ? (float) L : z * L; switch (x) { case L: y[0] = L; } }",
        "#ifndef L\n#define L 3\nconstant int K = 3;\n#else\nconstant int K = L;\n#endif\nkernel void f(global float *y) { y[0] = K; }",
        "#ifdef L\nconstant int K = L;\n#else\nconstant int L = 3;\n#endif\nkernel void f(global float *y) { y[0] = L; }",
        "constant int K = L;\n#undef L\nkernel void f(global float *y) { int L = K; y[0] = L; }",
        "// int L = 3;\nkernel __attribute__((reqd_work_group_size(L, 1, 1))) void f(global float *y) { y[0] = L; /* float L; */ }",
        "#if L != 4 && L != 8\n#error L\n#endif\nkernel void f(global float *y) { const float a = 2, b = L; y[0] = a * b * L; }",
    ],
)
def test_parameters_that_no_variable_is_called_like(text: str) -> None:
    portatile.Kernel(text, "f", (np.zeros(9, np.float32),), {"L": [4, 8]}, global_size="L", local_size="L")


def test_a_parameter_may_be_the_name_of_a_variable() -> None:
    text = "kernel void f(global float *y) { float first = 1, second = 2; float NAME = 3; y[0] = NAME; }"
    portatile.Kernel(text, "f", (np.zeros(9, np.float32),), {"NAME": ["other", "another"]}, global_size=1, local_size=1)
