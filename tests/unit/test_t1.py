"""T1 files: every field that is read, and every field that is wrong, said with its place in the file."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from portatile.errors import ArgumentError, UsageError
from portatile.formats import t1
from portatile.kernel import Kernel
from portatile.trials import Budget
from portatile.workload import Expected
from support.ptx_machine.device import PtxDevice
from support.seeds import new_seed

TEXT = """
kernel void blend(global float *c, global const float *a, global const float4 *b, constant int *pick, local float *t, float f, long n) { }
"""
VECTOR = {"MemoryType": "Vector", "FillType": "Constant", "FillValue": 2.0}
DOCUMENT: dict[str, Any] = {
    "General": {"BenchmarkName": "blend"},
    "ConfigurationSpace": {
        "TuningParameters": [
            {"Name": "block", "Type": "int", "Values": "[2**i for i in range(4, 8)]", "Default": 64},
            {"Name": "tile", "Type": "uint", "Values": "[1, 2] + list(range(4, 6))", "Default": [2]},
            {"Name": "scale", "Type": "float", "Values": "(0.5, 1)", "Default": 1},
            {"Name": "fast", "Type": "bool", "Values": "[0, 1]", "Default": True},
            {"Name": "kind", "Type": "string", "Values": "['float', 'double']", "Default": "float"},
        ],
        "Conditions": [
            {"Expression": "block * tile <= 256 && (tile > 1 || fast)", "Parameters": ["block", "tile", "fast"]},
            {"Expression": "kind == 'float' or not fast", "Parameters": ["kind", "fast"]},
        ],
    },
    "KernelSpecification": {
        "Language": "OpenCL",
        "KernelName": "blend",
        "KernelFile": "blend.cl",
        "CompilerOptions": ["-std=c++11", "-cl-mad-enable"],
        "LocalSize": {"X": "block", "Y": "1", "Z": "1"},
        "GlobalSize": {"X": "4096 // tile", "Y": "2"},
        "GlobalSizeType": "OpenCL",
        "SharedMemory": 0,
        "Stream": None,
        "Arguments": [
            {"Name": "out", "Type": "float", "AccessType": "WriteOnly", "Size": 4096, "Output": 1, **VECTOR},
            {"Name": "x", "Type": "float", "AccessType": "ReadOnly", "Size": "32 * max(block)", **VECTOR},
            {"Name": "y", "Type": "float4", "Size": 8, **VECTOR, "FillType": "Random", "FillValue": 3.0, "RandomSeed": 7},
            {"Name": "i", "Type": "int32", "Size": 5, **VECTOR, "FillType": "BinaryRaw", "DataSource": "pick.bin"},
            {"Name": "t", "Type": "float", "MemoryType": "Local", "Size": 128},
            {"Name": "f", "Type": "float", "MemoryType": "Scalar", "FillValue": 0.25},
            {"Name": "n", "Type": "int64", "MemoryType": "Scalar", "FillValue": 4096.0},
        ],
        "ReferenceArguments": [
            {"Name": "r", "TargetName": "out", "FillType": "Constant", "FillValue": 5, "ValidationThreshold": 0.5},
        ],
    },
    "Budget": [{"Type": "TuningDuration", "BudgetValue": 30}, {"Type": "ConfigurationFraction", "BudgetValue": 0.25}],
}


def written(folder: Path, **kernel: Any) -> Path:
    """The document, with some fields of the KernelSpecification changed, as a file with everything that it names beside it."""
    document = copy.deepcopy(DOCUMENT)
    document["KernelSpecification"] |= kernel
    return put(folder, document)


def put(folder: Path, document: Any) -> Path:
    (folder / "blend.cl").write_text(TEXT)
    np.array([3, 1, 4, 1, 5], np.int32).tofile(folder / "pick.bin")
    path = folder / "blend.json"
    path.write_text(json.dumps(document))
    return path


def test_everything_is_read(tmp_path: Path) -> None:
    rows = t1.read(written(tmp_path))
    assert rows.parameters == {
        "block": (16, 32, 64, 128),
        "tile": (1, 2, 4, 5),
        "scale": (0.5, 1.0),
        "fast": (False, True),
        "kind": ("float", "double"),
    }
    assert rows.default == {"block": 64, "tile": 2, "scale": 1.0, "fast": True, "kind": "float"}
    assert rows.constraints == ("block * tile <= 256 and (tile > 1 or fast)", "kind == 'float' or not fast")
    out, x, y, pick, local, f, n = rows.arguments
    assert (out.dtype, out.size, out[0]) == (np.float32, 4096, 2.0)
    assert x.size == 32 * 128
    assert y.size == 32
    assert 0 <= y.min() < y.max() <= 3
    assert np.array_equal(y, t1.read(written(tmp_path)).arguments[2])
    assert pick.tolist() == [3, 1, 4, 1, 5]
    assert (local, f, n) == (128, 0.25, 4096)
    assert isinstance(n, int)
    assert rows.roles == ("out", "in", None, None, None, None, None)
    assert rows.references[0].values.tolist() == [5.0] * 4096
    assert (rows.references[0].rtol, rows.references[0].atol) == (0.0, 0.5)
    assert (rows.kernel_file, rows.kernel) == (tmp_path / "blend.cl", "blend")
    assert rows.options == ("-cl-mad-enable",)
    assert rows.local_size == ("block", "1", "1")
    assert rows.budget == Budget(30.0, 32)


def test_it_becomes_a_kernel(tmp_path: Path) -> None:
    kernel, device = Kernel.from_t1(written(tmp_path)), PtxDevice()
    problem = kernel.problem()
    assert kernel.arguments.called == ("c", "a", "b", "pick", "f", "n")  # the kernel's own names
    assert [(operand.name, operand.role) for operand in kernel.operands] == [("c", "out"), ("a", "in"), ("b", "in"), ("pick", "in")]
    config = kernel.default(problem, device.info)
    assert config["block"] == 64
    (launch,) = kernel.plan(problem, config, device.info).steps
    assert (launch.global_size, launch.local_size) == ((2048, 2, 1), (64, 1, 1))  # type: ignore[union-attr]
    inputs = kernel.inputs(problem, np.random.default_rng(new_seed("t1")))
    assert isinstance(kernel.reference(problem, inputs)["c"], Expected)


@pytest.mark.parametrize(
    ("changes", "size"),
    [
        ({"GlobalSizeType": "CUDA"}, (2048 * 64, 2, 1)),
        ({"ProblemSize": [1000, 30], "GridDivX": ["block", "tile"], "GridDivY": ["tile"]}, (8 * 64, 15, 1)),
        ({"ProblemSize": [1000, 30], "GridDivX": ["block", "tile"]}, (8 * 64, 30, 1)),
        ({"ProblemSize": 1000, "GridDivX": ["block"]}, (16 * 64, 1, 1)),
        ({"ProblemSize": [1000, 30]}, (2048, 2, 1)),
    ],
)
def test_how_many_work_items(changes: dict[str, Any], size: tuple[int, ...], tmp_path: Path) -> None:
    kernel, device = Kernel.from_t1(written(tmp_path, **changes)), PtxDevice()
    (launch,) = kernel.plan(kernel.problem(), kernel.default(kernel.problem(), device.info), device.info).steps
    assert launch.global_size == size  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("method", "tolerance"),
    [("SideBySideComparison", (0.0, 1e-3)), ("AbsoluteDifference", (0.0, 1e-3)), ("SideBySideRelativeComparison", (1e-3, 0.0))],
)
def test_validation_methods_are_tolerances(method: str, tolerance: tuple[float, float], tmp_path: Path) -> None:
    reference = {"Name": "r", "TargetName": "out", "ValidationMethod": method, "ValidationThreshold": 1e-3}
    found = t1.read(written(tmp_path, ReferenceArguments=[reference])).references[0]
    assert (found.rtol, found.atol) == tolerance


def test_an_illegal_default_is_left_out(tmp_path: Path) -> None:
    document = copy.deepcopy(DOCUMENT)
    document["ConfigurationSpace"]["TuningParameters"][0]["Default"] = 48
    assert t1.read(put(tmp_path, document)).default is None


@pytest.mark.parametrize(
    ("place", "field", "misspelt"),
    [
        ((), "Budget", "Budgets"),
        (("ConfigurationSpace",), "Conditions", "Conditons"),
        (("ConfigurationSpace", "TuningParameters", 0), "Default", "Defalt"),
        (("KernelSpecification",), "ReferenceArguments", "ReferenceArgument"),
        (("KernelSpecification", "Arguments", 1), "AccessType", "AcessType"),
        (("KernelSpecification", "ReferenceArguments", 0), "ValidationThreshold", "ValidationTreshold"),
    ],
)
def test_a_misspelt_field_is_not_left_out_silently(place: tuple[Any, ...], field: str, misspelt: str, tmp_path: Path) -> None:
    document = copy.deepcopy(DOCUMENT)
    record: Any = document
    for step in place:
        record = record[step]
    record[misspelt] = record.pop(field)
    with pytest.raises(ArgumentError, match=rf"{misspelt} is not a field; did you mean {field}\?"):
        t1.read(put(tmp_path, document))


def test_fields_of_other_tools_are_passed_over(tmp_path: Path) -> None:
    document = copy.deepcopy(DOCUMENT)
    document["General"]["Anything"] = document["Search"] = document["KernelSpecification"]["Profiling"] = 1
    document["KernelSpecification"]["Arguments"][0] |= {"Sizes": 4, "AccessMode": "x"}  # nearly Size, which is there too
    assert t1.read(put(tmp_path, document)).kernel == "blend"


SPACE = ("ConfigurationSpace", "TuningParameters", 0)
ARGUMENT = ("KernelSpecification", "Arguments", 1)
WHOLE = {"Type": "int32", "MemoryType": "Vector", "Size": 5}


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (("KernelSpecification", "Language"), "CUDA", "KernelSpecification.Language is 'CUDA'; portatile takes OpenCL C"),
        (("KernelSpecification", "KernelName"), None, "KernelSpecification.KernelName is None"),
        (("KernelSpecification", "KernelName"), "blnd", "'blnd'. Did you mean 'blend'"),
        (("KernelSpecification", "KernelFile"), "none.cl", "none.cl cannot be read"),
        (("KernelSpecification", "SharedMemory"), 64, "MemoryType Local"),
        (("KernelSpecification", "GlobalSizeType"), "Metal", "GlobalSizeType is 'Metal'"),
        (("KernelSpecification", "LocalSize"), {"Y": "1"}, "LocalSize.X is missing"),
        (("KernelSpecification", "LocalSize"), {"X": "1", "Z": "1"}, "Y goes before Z"),
        (("KernelSpecification", "LocalSize"), {"X": "blok"}, "'blok' reads 'blok', which is none of block, tile"),
        (("KernelSpecification", "ProblemSize"), [0], "ProblemSize is"),
        (("KernelSpecification", "Arguments"), DOCUMENT["KernelSpecification"]["Arguments"][:2], "has 2 Arguments, blend takes 7: c, a, b"),
        (("KernelSpecification", "Arguments"), {}, "Arguments must be a list of objects"),
        (("KernelSpecification", "Arguments"), "c", "Arguments must be a list of objects"),
        ((*SPACE, "Values"), "[1, 2", "not an expression"),
        ((*SPACE, "Values"), "3", "must be a list of numbers"),
        ((*SPACE, "Values"), "[1.5]", "1.5 is not a value of type 'int'"),
        ((*SPACE, "Values"), "[1, 1]", "lists a value twice"),
        ((*SPACE, "Values"), "__import__('os').listdir()", "does more than calculate"),
        ((*SPACE, "Values"), "[().__class__]", "does more than calculate"),
        ((*SPACE, "Values"), "[open('x')]", "does more than calculate"),
        ((*SPACE, "Values"), "[1 // 0]", "ZeroDivisionError"),
        ((*SPACE, "Values"), [1, 2], "Values is .1, 2."),
        ((*SPACE, "Type"), "complex", "type 'complex'"),
        (("ConfigurationSpace", "Conditions", 0, "Expression"), "lambda: 1", r"Conditions\[0\].Expression: .* does more than calculate"),
        (("ConfigurationSpace", "Conditions", 0, "Expression"), "blck > 1", "reads 'blck'"),
        ((*ARGUMENT, "Type"), "custom", r"Arguments\[1\].Type is 'custom'"),
        ((*ARGUMENT, "MemoryType"), "Symbol", "MemoryType is 'Symbol'"),
        ((*ARGUMENT, "AccessType"), "Write", "AccessType is 'Write'"),
        ((*ARGUMENT, "FillType"), "Script", "FillType is 'Script'; Constant, Random and BinaryRaw"),
        ((*ARGUMENT, "FillValue"), "2", "FillValue is '2', not a number"),
        ((*ARGUMENT, "RandomSeed"), "x", "RandomSeed is 'x'"),
        ((*ARGUMENT, "RandomSeed"), -1, "RandomSeed is -1"),
        (
            ("KernelSpecification", "Arguments", 3),
            {"Name": "q", **WHOLE, "FillType": "Constant", "FillValue": 2**40},
            "too large or too small",
        ),
        (
            ("KernelSpecification", "Arguments", 3),
            {"Name": "q", **WHOLE, "FillType": "Random", "FillValue": 2**40},
            "too large or too small",
        ),
        ((*SPACE, "Values"), "[1e999]", "inf is not a value of type 'int'"),
        ((*ARGUMENT, "Size"), "n", "reads 'n'"),
        ((*ARGUMENT, "Size"), "1e999", "Size is '1e999'"),
        ((*ARGUMENT, "Size"), -3, "Size is -3"),
        (("KernelSpecification", "Arguments", 3, "DataSource"), "none.bin", "none.bin cannot be read"),
        (("KernelSpecification", "Arguments", 3, "Size"), 6, "holds 5 numbers of type int32, not 6"),
        (("KernelSpecification", "ReferenceArguments", 0, "TargetName"), "f", "TargetName is 'f', which is not a vector"),
        (("KernelSpecification", "ReferenceArguments", 0, "TargetName"), "x", "ReferenceArguments are for a, which blend does not write"),
        (("KernelSpecification", "ReferenceArguments", 0, "ValidationMethod"), "None", "ValidationMethod must be one of"),
        (("Budget", 0, "Type"), "Forever", "Type is 'Forever'"),
        (("Budget", 0, "BudgetValue"), 0, "must be positive"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(place: tuple[Any, ...], value: Any, message: str, tmp_path: Path) -> None:
    document = copy.deepcopy(DOCUMENT)
    record: Any = document
    for step in place[:-1]:
        record = record[step]
    record[place[-1]] = value
    with pytest.raises(UsageError, match=message):
        Kernel.from_t1(put(tmp_path, document))


@pytest.mark.parametrize(("text", "message"), [("{", "is not JSON"), ("[]", "is not a T1 file"), ('{"trials": []}', "is not a T1 file")])
def test_what_is_no_t1_file(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(ArgumentError, match=message):
        t1.read(tmp_path / "x.json")
