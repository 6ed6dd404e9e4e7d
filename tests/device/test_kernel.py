"""A user's own kernel on every device: tuned, called, found again; wrong and broken texts; scripts without a guard; T1 files."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import portatile
from portatile import Buffer, Kernel, TunedKernel
from portatile.device.base import Device
from portatile.errors import ArgumentError, CompileError, NoValidVariantError, SpaceError, UnknownNameError
from portatile.store import Query, ResultStore
from portatile.trials import Budget
from portatile.tuning.protocol import Timing
from support.seeds import new_seed

pytestmark = pytest.mark.usefixtures("own_directories")

QUICK = Timing(samples=3, burst=0.0005, most=0.05, race=0.0)
AXPY = """kernel void axpy(global const float *x, global float *y, float a, int n) {
    for (int k = 0, i = get_global_id(0) * work; k < work && i < n; k++, i++) y[i] = OPERATION;
}
"""
N = 1003


def axpy(operation: str = "a * x[i] + y[i]", **changes: Any) -> Kernel:
    """y := a x + y, which reads what it overwrites, so that every run needs the old y again."""
    x, y = np.random.default_rng(new_seed("axpy")).random((2, N), np.float32)
    base: dict[str, Any] = {
        "source": AXPY.replace("OPERATION", operation),
        "name": "axpy",
        "arguments": (x, y, 2.5, N),
        "parameters": {"block": [16, 64], "work": [1, 4]},
        "global_size": "n / work",
        "local_size": "block",
        "reference": lambda x, y, a: a * x.astype(np.float64) + y,
    }
    return Kernel(**{**base, **changes})


def tuned(kernel: Kernel, device: Device, evaluations: int = 2, **changes: Any) -> TunedKernel:
    request = kernel.request(Budget(evaluations=evaluations), device.info.id, "exhaustive", 0, True)
    with ResultStore.default() as store:
        return kernel.tune_as(replace(request, timing=QUICK, **changes), store)


def test_tuned_called_and_found_again(device: Device) -> None:
    kernel = axpy()
    result = tuned(kernel, device, 3)
    assert len(result.trials) == 3
    assert all(trial.status == "ok" for trial in result.trials), [trial.message for trial in result.trials]
    assert result.verified
    assert "axpy n=1003" in str(result)
    assert "3 of 4 configurations" in str(result)
    assert "#define block" in result.text

    rng = np.random.default_rng(new_seed("call"))
    for n in (N, 1, 250):
        x, y = rng.random((2, n), np.float32)
        before = y.copy()
        assert result(x, y, 0.5, n=n) is y  # in place
        assert np.allclose(y, 0.5 * x + before, rtol=1e-6)

    again = axpy()
    assert again.problem().key == kernel.problem().key
    assert again.explain(device.info.id).reason == "tuned"
    x, y = rng.random((2, N), np.float32)
    before = y.copy()
    again(x, y, -1, N, device=device.info.id)
    assert np.allclose(y, before - x, atol=1e-6)

    resumed = tuned(again, device, 4)
    assert len(resumed.trials) == 4
    with ResultStore.default() as store:
        assert len(store.trials(Query(problem=kernel.problem()))) == 4  # three of them from before


@pytest.mark.unoptimised
def test_one_configuration_runs_whatever_was_tuned(device: Device) -> None:
    kernel = axpy("a * x[i] + 10 * work + y[i]", constraints=["block * work < 256"])
    assert list(kernel.configurations(device.info.id)) == [{"block": block, "work": work} for block, work in ((16, 1), (16, 4), (64, 1))]
    x, zeros = np.arange(N, dtype=np.float32), np.zeros(N, np.float32)
    for work in (4, 1):
        y = zeros.copy()
        assert kernel.run({"block": 16, "work": work}, x, y, a=0.5, n=N, device=device.info.id) is y
        assert (y == 0.5 * x + 10 * work).all()
    for config, message in (
        ({"block": 64, "work": 4}, "not legal"),
        ({"block": 17, "work": 1}, "17"),
        ({"block": 16}, "no value for work"),
    ):
        with pytest.raises(SpaceError, match=message):
            kernel.run(config, x, zeros, 0.5, N, device=device.info.id)
    with pytest.raises(UnknownNameError, match="wrk"):
        kernel.run({"block": 16, "wrk": 1}, x, zeros, 0.5, N, device=device.info.id)


@pytest.mark.unoptimised
def test_parameters_choose_compiler_options(device: Device) -> None:
    kernel = axpy(
        "STEP * x[i]", parameters={"block": [16], "work": [1], "flags": ["-DSTEP=1", "-DSTEP=2 -cl-mad-enable"]}, options=["{flags}"]
    )
    x, y = np.ones(N, np.float32), np.zeros(N, np.float32)
    for place, config in enumerate(kernel.configurations(device.info.id)):
        kernel.run(config, x, y, 1.0, N, device=device.info.id)
        assert (y == place + 1).all()
    assert kernel.source(config).options == ("-DSTEP=2", "-cl-mad-enable")
    with pytest.raises(UnknownNameError, match="flgs"):
        axpy(options=["-DX={flgs}"])


def test_arrays_that_are_too_short_for_the_launch_are_warned_of(device: Device) -> None:
    text = "kernel void first(global const float *x, global float *y, int n) { if (get_global_id(0) == 0) y[0] = x[0] + n; }"
    long, short = np.ones(64, np.float32), np.ones(8, np.float32)
    first = Kernel(text, "first", (long, long.copy(), 64), {"block": [16]}, global_size="n", local_size="block", reference=None)
    message = "first: x has 8 elements, in the definition 64 for the same n=64: the kernel may reach outside of the array"
    with pytest.warns(RuntimeWarning, match=message) as seen:
        first(short, long.copy(), 64, device=device.info.id)
    assert seen[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        first(short, short.copy(), 8, device=device.info.id)
        first(long, long.copy(), 64, device=device.info.id)
    result = tuned(axpy(), device, 1)
    with pytest.warns(RuntimeWarning, match="y has 1002 elements, in the definition 1003"):
        result(np.ones(N, np.float32), np.ones(N + 61, np.float32)[: N - 1], 0.5, n=N)


def test_a_wrong_kernel_is_wrong_and_looked_at_again(device: Device) -> None:
    wrong = axpy("a * x[i] + y[i] + (i == n - 1 ? 1 : 0)")
    with pytest.raises(NoValidVariantError, match=r"wrong: 2.*y\[1002\]"):
        tuned(wrong, device)
    mended = axpy("a * x[i] + y[i] + (i == n - 1 ? 1 : 0)", atol=1.5)
    assert tuned(mended, device).best.status == "ok"
    with ResultStore.default() as store:
        before = len(store.trials(Query(problem=wrong.problem())))
        with pytest.raises(NoValidVariantError):
            wrong.tune_as(replace(wrong.request(Budget(evaluations=1), device.info.id, "random", 0, True), timing=QUICK), store)
        assert len(store.trials(Query(problem=wrong.problem()))) == before + 1


def test_writing_behind_an_array_is_wrong(device: Device) -> None:
    behind = axpy(source=AXPY.replace("OPERATION", "a * x[i] + y[i]").replace("i < n;", "i < n + 3;"), reference=None)
    with pytest.raises(NoValidVariantError, match=r"wrote .* behind y"):
        tuned(behind, device)


def test_a_text_that_does_not_compile_says_the_users_line(device: Device) -> None:
    broken = "// a comment\n" + AXPY.replace("OPERATION", "a * x[i] + z[i]")
    with pytest.raises(NoValidVariantError, match=r"compile: 2[\s\S]*axpy\.cl[:(]3"):
        tuned(axpy(source=broken), device)
    with pytest.raises(CompileError, match=r"the first 10 configurations do not compile[\s\S]*axpy\.cl[:(]3"):
        tuned(axpy(source=broken, parameters={"block": range(1, 31), "work": [1]}), device, 30)


def test_without_a_reference_results_are_said_to_be_unverified(device: Device) -> None:
    """By ``portatile.tune``, which takes kernels, too."""
    heard: list[Any] = []
    with pytest.warns(UserWarning, match="axpy has no reference"):
        result = portatile.tune(axpy(reference=None), budget="1", device=device.info.id, listen=heard.append)
    assert isinstance(result, TunedKernel)
    assert heard
    assert not result.verified
    assert "UNVERIFIED" in str(result)
    assert result.problem.options["checked"] == "unverified"
    assert result.problem.key != axpy().problem().key
    with pytest.raises(ArgumentError, match="has its own arguments; leave out n"):
        portatile.tune(axpy(), n=3)  # type: ignore[call-overload]


def test_many_kinds_of_arguments(device: Device) -> None:
    """Complex numbers, integers, local memory, doubles where there are any, two outputs, a filter in constant memory."""
    text = """
    kernel void blend(global const float2 *z, constant short *weights, local float *share,
                    global float2 *turned, global uint *count, ulong add) {
        int i = get_global_id(0), l = get_local_id(0);
        share[l] = z[i].x;
        barrier(CLK_LOCAL_MEM_FENCE);
        turned[i] = (float2)(-z[i].y, share[l] * weights[1]);
        count[i] = (uint)(i * weights[0] + add);
    }"""
    rng = np.random.default_rng(new_seed("mix"))
    z = (rng.random(64) + 1j * rng.random(64)).astype(np.complex64)
    weights = np.array([3, 1], np.int16)

    def reference(z: Any, weights: Any, add: int) -> Any:
        return {"turned": 1j * z, "count": np.arange(64) * int(weights[0]) + add}

    arguments = (z, weights, "group", np.zeros(64, np.complex64), np.zeros(64, np.uint32), 7)
    roles = {"turned": "out", "count": "out"}
    kernel = Kernel(text, "blend", arguments, {"group": [8, 16]}, global_size=64, local_size="group", roles=roles, reference=reference)
    result = tuned(kernel, device)
    assert result.best.status == "ok"
    turned, count = np.zeros(64, np.complex64), np.zeros(64, np.uint32)
    written = result(z, weights, turned, count, 2**32 + 5)
    assert written[0] is turned
    assert written[1] is count
    assert np.array_equal(turned, 1j * z)
    assert np.array_equal(count, np.arange(64, dtype=np.uint32) * 3 + 5)


def test_buffers_stay_on_the_device(device: Device) -> None:
    kernel = axpy()
    config = {"block": 16, "work": 4}
    rng = np.random.default_rng(new_seed("buffers"))
    x, y = rng.random((2, 100), np.float32)
    on_device = [Buffer.from_numpy(array, device) for array in (x, y)]
    assert kernel(*on_device, 2, 100) is on_device[1]
    assert np.allclose(on_device[1].numpy(), 2 * x + y, rtol=1e-6)
    run = kernel.runner(config, device).run
    with pytest.raises(ArgumentError, match="some arrays are on the host"):
        run({"x": x, "y": on_device[1], "a": 1, "n": 1})
    with pytest.raises(ArgumentError, match="starts at the beginning of its memory"):
        run({"x": on_device[0][3:], "y": on_device[1], "a": 1, "n": 1})
    with pytest.raises(ArgumentError, match="share memory"):
        run({"x": on_device[1], "y": on_device[1], "a": 1, "n": 1})


def test_calls_that_do_not_fit(device: Device) -> None:
    kernel = axpy()
    x, y = np.zeros((2, N), np.float32)

    def call(*arguments: Any, **named: Any) -> None:
        kernel(*arguments, device=device.info.id, **named)

    for arguments, named, message in (
        ((x, y, 1), {}, r"axpy\(x, y, a, n\): n is missing"),
        ((x, y, 1, N, 2), {}, "takes 4 arguments, got 5"),
        ((x, y, 1, N), {"a": 2}, "a is given twice"),
        ((x, y[::2], 1, N), {}, "y is not contiguous"),
        ((x, y.astype(np.float64), 1, N), {}, "y has dtype float64"),
        ((x, x, 1, N), {}, "share memory"),
        ((x, list(y), 1, N), {}, "y is a list"),
        ((x, y, "one", N), {}, "a is 'one'"),
        ((x, y, 1, 2**40), {}, "n is 1099511627776"),
    ):
        with pytest.raises(ArgumentError, match=message):
            call(*arguments, **named)
    with pytest.raises(ArgumentError, match=r"pass a NumPy array, not a Buffer: x.numpy\(\)"):
        axpy(arguments=(Buffer.from_numpy(x, device=device), y, 1, N))
    with pytest.raises(UnknownNameError, match="argument of axpy 'm'"):
        call(x, y, 1, N, m=1)
    fixed = np.zeros(N, np.float32)
    fixed.flags.writeable = False
    with pytest.raises(ArgumentError, match="y is read-only"):
        call(x, fixed, 1, N)
    with pytest.raises(ArgumentError, match="y is not contiguous in memory, and the kernel writes it"):
        call(x, np.zeros((N, 2), np.float32)[:, 0], 1, N)
    call(fixed, y, 1, N)  # an input may be


def test_a_definition_takes_host_tensors(device: Device) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    x, y = torch.rand(N), torch.rand(N)
    edge = (torch.rand(N - 9), torch.rand(N - 9), 1.5, N - 9)
    kernel = axpy(arguments={"x": x, "y": y, "a": 2.5, "n": N}, awkward=[edge])
    expected = 2.5 * x + y
    assert "2 sets of arguments" in tuned(kernel, device).checked
    assert kernel(x, y, 2.5, N, device=device.info.id) is y
    torch.testing.assert_close(y, expected)


def right(x: Any, y: Any, a: float) -> Any:
    """The reference of ``axpy`` as a function of a module, which pickle finds again."""
    return a * x.astype(np.float64) + y


def test_kernels_and_results_are_pickled(device: Device) -> None:
    """As other processes are sent them; what was loaded stays behind."""
    result = tuned(axpy(reference=right, global_size=("n / work",), local_size=("block", 1)), device)
    x, y = np.ones(N, np.float32), np.ones(N, np.float32)
    result(x, y, 2.0, N)
    sent: TunedKernel = pickle.loads(pickle.dumps(result))
    assert sent.best == result.best
    assert sent.kernel.problem() == result.kernel.problem()
    assert sent(x, y, 2.0, N)[5] == 5
    assert sent.kernel(x, y, 1.0, N, device=device.info.id)[N - 1] == 6


def test_parameters_may_be_called_as_variables_of_the_prelude(device: Device) -> None:
    names = ("p", "v", "w", "h", "lane", "sign", "small", "T", "bits")
    text = "kernel void f(global const float *in, global float *out) { const int i = get_global_id(0);"
    text += "out[i] = MATRIX_LOW_F16(0x3c00u) + LDG(in + i)"
    values = np.arange(64, dtype=np.float32)
    kernel = Kernel(
        f"{text} + {' + '.join(names)}; }}",
        "f",
        (values, np.zeros_like(values)),
        {name: [number] for number, name in enumerate(names)} | {"block": [16, 32]},
        local_size="block",
        global_size=64,
        reference=lambda in_: in_ + 1 + sum(range(len(names))),
    )
    assert not tuned(kernel, device).failures


def test_definitions_among_the_options(device: Device) -> None:
    text = "#if TILE == 16\n#define V x\n#endif\n#ifdef NARROW\nkernel void f(global const float *x, global float *y, int n) {\n"
    text += "#else\nkernel void f(global const float *x, global float *y) {\n#endif\n"
    text += "for (int i = get_global_id(0); i < n; i += get_global_size(0)) y[i] = V[i] * TWICE(TILE) + w; }"
    x = np.arange(100, dtype=np.float32)
    kernel = Kernel(
        text,
        "f",
        (x, np.zeros_like(x), 100),
        {"block": [16, 32]},
        local_size="block",
        global_size=50,
        options=["-DTILE=16", "-D", "NARROW", "-DTWICE(a)=2*a", "-Dw=1"],
        reference=lambda x: 32 * x + 1,
    )
    assert not tuned(kernel, device).failures


def test_threads_take_turns(device: Device) -> None:
    kernel = axpy()
    run = kernel.runner({"block": 16, "work": 1}, device).run
    x = np.ones(N, np.float32)
    results = [np.zeros(N, np.float32) for _ in range(4)]
    threads = [
        threading.Thread(target=lambda y=y, a=a: [run({"x": x, "y": y, "a": a, "n": N}) for _ in range(10)]) for a, y in enumerate(results)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [set(y.tolist()) for y in results] == [{10.0 * a} for a in range(4)]


SCRIPT = """
import numpy as np
import portatile

n = 500
x, y = np.arange(n, dtype=np.float32), np.zeros(n, np.float32)
kernel = portatile.Kernel(
    "kernel void twice(global const float *x, global float *y, int n) { int i = get_global_id(0); if (i < n) y[i] = 2 * x[i]; }",
    "twice", (x, y, n), {"block": [16, 32]}, global_size=lambda n: n, local_size=lambda block: block,
    constraints=[lambda block: block > 8], reference=lambda x: 2 * x,
)
result = kernel.tune(budget="2")
assert result(x, y, n)[3] == 6
print("trials:", len(result.trials))
"""


def test_a_script_needs_no_guard(tmp_path: Path) -> None:
    """Lambdas everywhere, no ``if __name__ == '__main__'``, no file that could be imported: read from standard input."""
    completed = subprocess.run(
        [sys.executable, "-"], input=SCRIPT, env=os.environ, cwd=tmp_path, capture_output=True, text=True, timeout=240
    )
    assert completed.returncode == 0, completed.stderr
    assert completed.stdout == "trials: 2\n"
