"""`portatile show --json`: what each stage prints, as a document that other programs read."""

from __future__ import annotations

import json
from typing import Any

import pytest

from portatile import cli
from portatile.device.cuda import compiler as cuda_compiler

pytestmark = pytest.mark.skipif(cuda_compiler.available() is not None, reason=str(cuda_compiler.available()))


def shown(stage: str, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    assert cli.main(["show", "stream", "-n", "4096", "--backend", "cuda", "--arch", "sm_90", "--stage", stage, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["workload"], document["backend"], document["architecture"]) == ("stream", "cuda", "sm_90")
    assert document["config"]["WGS"]
    assert document["why"]
    return dict(document)


def test_parameters_with_their_meanings(capsys: pytest.CaptureFixture[str]) -> None:
    document = shown("parameters", capsys)
    assert {each["name"]: each["value"] for each in document["parameters"]} == document["config"]
    assert all(each["meaning"] for each in document["parameters"])


@pytest.mark.parametrize("stage", ["template", "preprocessed", "lowered", "assembly"])
def test_texts_of_a_stage(stage: str, capsys: pytest.CaptureFixture[str]) -> None:
    (text,) = shown(stage, capsys)["texts"]
    assert text["file"] == "stream.cl"
    assert "stream" in text["text"]


def test_instructions_and_resources_of_each_kernel(capsys: pytest.CaptureFixture[str]) -> None:
    ((kernel, families),) = shown("instructions", capsys)["kernels"].items()
    assert sum(sum(kinds.values()) for kinds in families.values()) > 5
    (launch,) = shown("resources", capsys)["launches"]
    assert launch["kernel"] == kernel
    assert launch["resources"]["registers"] > 0
    assert launch["global"][0] % launch["local"][0] == 0
