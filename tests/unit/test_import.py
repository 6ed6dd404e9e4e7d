"""What importing costs, counted in what is imported: no binding, no console library, and so no device, before it is needed."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from portatile.device.cuda import driver as cuda_driver

# These are what `import portatile` may cost; whatever they load themselves is theirs.
BASE = "import numpy, numpy.typing, numpy.random, msgspec, msgspec.json, msgspec.msgpack, pcpp, platformdirs, platformdirs.unix"


def modules_after(statement: str) -> set[str]:
    """Top-level names of what a fresh interpreter has loaded after ``statement``."""
    code = f"{statement}\nimport sys, json\nsys.__stdout__.write(json.dumps(sorted({{name.split('.')[0] for name in sys.modules}})))"
    completed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    return set(json.loads(completed.stdout[completed.stdout.rindex("[") :]))


@pytest.fixture(scope="module")
def base() -> set[str]:
    return modules_after(BASE)


def third_party(names: set[str]) -> set[str]:
    return {name for name in names if name not in sys.stdlib_module_names and not name.startswith("_")}


def test_importing_portatile_loads_no_binding(base: set[str]) -> None:
    assert third_party(modules_after("import portatile") - base) == {"portatile"}


def test_routines_load_no_translator() -> None:
    """OpenCL takes the text as it is; what makes CUDA C++ of it is loaded where there is a GPU."""
    assert "pcpp" not in modules_after("import portatile; portatile.matmul, portatile.convolve1d; from portatile.dialect import VERSION")
    assert "pcpp" in modules_after("from portatile import dialect; dialect.translate")


def test_a_list_of_devices_loads_no_search_and_no_bindings_without_a_driver() -> None:
    code = "import json, sys, portatile; portatile.devices(); print(json.dumps(sorted(sys.modules)))"
    completed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    loaded = json.loads(completed.stdout)
    assert "portatile.device.cuda.survey" in loaded
    assert cuda_driver.driver is not None or not any(name.startswith("cuda.bindings") for name in loaded)
    assert {"portatile.workloads.gemm", "jinja2", "pcpp"}.isdisjoint(loaded)


def own_modules_after(run: str) -> int:
    """How many modules of the package a fresh interpreter has loaded after ``run``, in which no device is selected."""
    code = "import numpy, portatile, sys\n" + run + "\nprint(sum(name.startswith('portatile') for name in sys.modules))"
    environment = {name: value for name, value in os.environ.items() if name not in ("PORTATILE_DEVICE", "PYOPENCL_CTX")}
    completed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60, env=environment)
    return int(completed.stdout)


def test_a_small_product_of_numpy_arrays_loads_no_device() -> None:
    run = "portatile.matmul(numpy.eye(4), numpy.eye(4)); portatile.gemm(numpy.eye(4), numpy.eye(4), alpha=2.0)"
    assert own_modules_after(run) < 12


def test_a_small_product_that_numpy_converts_loads_no_device() -> None:
    assert own_modules_after("portatile.matmul([[1, 2], [3, 4]], numpy.ones((2, 3), numpy.float16))") < 16


def test_help_loads_no_command(base: set[str]) -> None:
    run = "import io, sys; sys.stdout = io.StringIO()\nfrom portatile.cli import main\nmain(['--help'])"
    assert third_party(modules_after(run) - base) <= {"portatile", "click"}


def test_the_check_sees_a_binding(base: set[str]) -> None:
    assert "click" in third_party(modules_after("import portatile, click") - base)
