"""Exceptions that cross a process: pickled and back they are what they were, or a pool of workers would wait for ever."""

from __future__ import annotations

import pickle

import pytest

from portatile import errors


@pytest.mark.parametrize(
    "kind", sorted(errors.PortatileError.__subclasses__() + errors.UsageError.__subclasses__(), key=lambda k: k.__name__)
)
def test_pickling_keeps_everything(kind: type[errors.PortatileError]) -> None:
    error = (
        kind("device", "cpuu", ["cpu", "gpu"])
        if kind is errors.UnknownNameError
        else kind("it fails", *(["the log"] * (kind is errors.CompileError)))
    )
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is kind
    assert (str(again), vars(again)) == (str(error), vars(error))


def test_the_reason_is_without_number_and_name() -> None:
    assert errors.reason(FileNotFoundError(2, "No such file or directory", "x")) == "No such file or directory"
    assert errors.reason(ValueError("7 is odd")) == "7 is odd"


def test_a_name_that_is_no_text_is_unknown_too() -> None:
    assert str(errors.UnknownNameError("workload", None, ["gemm"])) == "unknown workload None. Known: gemm"
