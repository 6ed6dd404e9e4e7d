"""A user's own kernel that takes images and samplers: tuned, called with other pictures, refused where they do not fit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from portatile import Kernel, Sampler, TunedKernel
from portatile.device.base import Device
from portatile.errors import ArgumentError, UnknownNameError
from portatile.store import ResultStore
from portatile.trials import Budget
from portatile.tuning.protocol import Timing
from support.seeds import new_seed

pytestmark = [pytest.mark.thinned(1 / 3), pytest.mark.usefixtures("own_directories")]

QUICK = Timing(samples=3, burst=0.0005, most=0.05, race=0.0)
WARP = """kernel void warp(read_only image2d_t from, sampler_t how, write_only image2d_t to, global float *sums, float shift) {
    int2 at = (int2)(get_global_id(0), get_global_id(1) * rows);
    for (int r = 0; r < rows && at.y < get_image_height(to); r++, at.y++) {
        if (at.x >= get_image_width(to)) break;
        float4 pixel = read_imagef(from, how, convert_float2(at) + 0.5f + (float2)(shift, 0));
        write_imagef(to, at, pixel.yxzw);
        sums[at.y * get_image_width(to) + at.x] = pixel.x + pixel.y;
    }
}
"""
HEIGHT, WIDTH = 13, 37


def shifted(picture: np.ndarray[Any, Any], shift: float) -> np.ndarray[Any, Any]:
    """The picture as fractions, moved by half a pixel with its edge repeated: the mean of two neighbours."""
    assert shift == 0.5
    seen = picture / np.float64(255)
    return (seen + seen[:, [*range(1, seen.shape[1]), -1]]) / 2


def warp(**changes: Any) -> Kernel:
    rng = np.random.default_rng(new_seed("picture"))
    picture = rng.integers(0, 256, (HEIGHT, WIDTH, 4), np.uint8)
    to, sums = np.zeros((HEIGHT, WIDTH, 4), np.float32), np.zeros((HEIGHT, WIDTH), np.float32)

    def expected(**given: Any) -> dict[str, Any]:
        moved = shifted(given["from"], given["shift"])
        return {"to": moved[..., [1, 0, 2, 3]], "sums": moved[..., 0] + moved[..., 1]}

    base: dict[str, Any] = {
        "source": WARP.replace("from", "source"),
        "name": "warp",
        "arguments": (picture, Sampler("edge", linear=True), to, sums, 0.5),
        "parameters": {"rows": [1, 4]},
        "global_size": (WIDTH, "height / rows"),
        "constants": {"height": HEIGHT},
        "local_size": (8, 4),
        "reference": lambda source, shift: expected(**{"from": source, "shift": shift}),
        "rtol": 1e-2,
        "normalized": ["source"],
    }
    return Kernel(**{**base, **changes})


def tuned(kernel: Kernel, device: Device) -> TunedKernel:
    request = kernel.request(Budget(evaluations=2), device.info.id, "exhaustive", 0, True)
    with ResultStore.default() as store:
        return kernel.tune_as(replace(request, timing=QUICK), store)


def test_tuned_and_called(device: Device) -> None:
    if not device.info.images:
        pytest.skip("no images")
    kernel = warp()
    result = tuned(kernel, device)
    assert [trial.status for trial in result.trials] == ["ok", "ok"], [trial.message for trial in result.trials]
    rng = np.random.default_rng(new_seed("other"))
    for width in (WIDTH, 5):
        picture = rng.integers(0, 256, (HEIGHT, width, 4), np.uint8)
        to, sums = np.zeros((HEIGHT, width, 4), np.float32), np.zeros((HEIGHT, width), np.float32)
        assert result(picture, to, sums, 0.5)[0] is to  # the sampler is the kernel's own
        assert np.allclose(to, shifted(picture, 0.5)[..., [1, 0, 2, 3]], atol=0.01)
        assert np.allclose(sums, shifted(picture, 0.5)[..., :2].sum(-1), atol=0.01)
    with pytest.raises(ArgumentError, match="fractions, not float32"):
        result(picture.astype(np.float32), to, sums, 0.5)
    with pytest.raises(ArgumentError, match="NumPy arrays"):
        result(memoryview(picture), to, sums, 0.5)


def test_a_wrong_variant_is_found(device: Device) -> None:
    if not device.info.images:
        pytest.skip("no images")
    kernel = warp(source=WARP.replace("from", "source").replace("pixel.yxzw", "rows == 4 ? pixel : pixel.yxzw"))
    result = tuned(kernel, device)
    assert {trial.config["rows"]: trial.status for trial in result.trials} == {1: "ok", 4: "wrong"}
    assert "to[" in next(trial.message for trial in result.trials if trial.status == "wrong")


def test_how_an_image_is_seen_tells_problems_apart() -> None:
    kernel = warp()
    for changes in ({"normalized": ()}, {"arguments": (*arguments(kernel)[:1], Sampler("clamp"), *arguments(kernel)[2:])}):
        assert warp(**changes).problem().key != kernel.problem().key


def arguments(kernel: Kernel) -> list[Any]:
    values = {array.name: array.value for array in kernel.arguments.arrays}
    return [values["source"], Sampler("edge", linear=True), values["to"], values["sums"], 0.5]


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (0, np.zeros((2, 3, 3), np.uint8), "channels are 1, 2 or 4"),
        (0, np.zeros((2, 3, 4), np.float64), "no image has pixels of 4 x float64"),
        (0, np.zeros((2, 3, 4), np.float32), "fractions"),
        (0, np.zeros((4, 6, 4), np.uint8)[::2], "contiguous"),
        (0, 3, "pass a NumPy array of its pixels"),
        (1, 5, "pass portatile.Sampler"),
    ],
)
def test_what_does_not_fit_is_refused(place: int, value: Any, message: str) -> None:
    given = arguments(warp())
    given[place] = value
    with pytest.raises(ArgumentError, match=message):
        warp(arguments=given)


@pytest.mark.parametrize("addressing", ["none", "edge", "clamp", "repeat", "mirror"])
def test_samplers_and_their_bits(addressing: Any) -> None:
    for linear in (False, True):
        sampler = Sampler(addressing, linear, normalized=True)
        assert Sampler.of_bits(sampler.bits) == sampler


def test_roles_and_names_of_images() -> None:
    with pytest.raises(ArgumentError, match="read_only"):
        warp(roles={"source": "out"})
    with pytest.raises(UnknownNameError, match="sums"):
        warp(normalized=["sums"])
    assert [array.role for array in warp().arguments.arrays] == ["in", "inout", "inout"]
    one_channel = arguments(warp())
    one_channel[0] = one_channel[0][..., 0].copy()
    form = warp(arguments=one_channel).arguments.arrays[0].form
    assert form is not None
    assert form.shape == (HEIGHT, WIDTH, 1)
