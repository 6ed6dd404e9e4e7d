"""Images of every shape and samplers: copies, sampling and writing in kernels, what is refused."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from portatile import program
from portatile.device.base import Device, Queue
from portatile.errors import ArgumentError, LaunchError
from portatile.images import ImageForm, Sampler
from portatile.records import Source

pytestmark = pytest.mark.unoptimised

SEED = 20


@pytest.fixture
def queue(device: Device) -> Iterator[Queue]:
    with device.queue() as made:
        yield made


@pytest.mark.parametrize(
    "form",
    [
        ImageForm("image2d_t", (5, 7, 4)),
        ImageForm("image2d_t", (5, 7, 1)),
        ImageForm("image2d_t", (5, 7, 4), "uint32"),
        ImageForm("image1d_t", (7, 4)),
        ImageForm("image1d_buffer_t", (7, 1)),
        ImageForm("image1d_array_t", (3, 7, 4), "uint8", normalized=True),
        ImageForm("image2d_array_t", (3, 5, 7, 4), "uint16"),
        ImageForm("image3d_t", (3, 5, 7, 1), "float16"),
    ],
    ids=lambda form: f"{form.type}-{form.shape[-1]}-{form.dtype}",
)
def test_images_of_every_type_return_what_was_sent(device: Device, queue: Queue, form: ImageForm) -> None:
    if not device.info.images:
        pytest.skip(f"{device.info.id} has no images")
    data = np.random.default_rng(SEED).integers(0, 200, form.shape).astype(form.dtype)
    with device.image_of(form) as image, device.allocate(data.nbytes) as packed:
        result = np.zeros_like(data)
        queue.upload(image, data)
        queue.download(result, image)
        assert (result == data).all()
        queue.upload(packed, data + 1)
        queue.copy(image, packed, data.nbytes)
        queue.download(result, image)
        assert (result == data + 1).all()
        with pytest.raises(ArgumentError, match="as a whole"):
            queue.upload(image, data[:1])


SAMPLER_TEXT = """
__kernel void pick(read_only image1d_t p, sampler_t s, float u, __global float4 *o) { o[0] = read_imagef(p, s, u); }
"""


def test_samplers_are_arguments(device: Device, queue: Queue) -> None:
    if not device.info.images:
        pytest.skip(f"{device.info.id} has no images")
    built = program.build(Source("pick.cl", SAMPLER_TEXT), device.target, None)
    row = np.arange(1, 9, dtype=np.float32).repeat(4).reshape(8, 4)
    wanted = {
        (Sampler("clamp"), -1.5): 0,
        (Sampler("edge"), -1.5): 1,
        (Sampler("edge"), 90.0): 8,
        (Sampler("edge", linear=True), 3.0): 3.5,
        (Sampler("edge", normalized=True), 0.3): 3,
        (Sampler("repeat", normalized=True), 1.3): 3,
        (Sampler("mirror", normalized=True), 1.3): 6,
    }
    with device.load(built) as module, device.image_of(ImageForm("image1d_t", (8, 4))) as image, device.allocate(16) as memory:
        queue.upload(image, row)
        for (sampler, place), expected in wanted.items():
            queue.launch(module.kernel("pick"), (1, 1, 1), (1, 1, 1), [image, sampler, np.float32(place), memory])
            result = np.empty(4, np.float32)
            queue.download(result, memory)
            assert result == pytest.approx(expected, abs=1e-2), (sampler, place)
        with pytest.raises(LaunchError, match="does not take an image3d_t"), device.image_of(ImageForm("image3d_t", (2, 2, 2, 4))) as wrong:
            queue.launch(module.kernel("pick"), (1, 1, 1), (1, 1, 1), [wrong, Sampler(), np.float32(0), memory])


IMAGE_TEXT = {
    "opencl": """
__constant sampler_t nearest = CLK_NORMALIZED_COORDS_FALSE | CLK_ADDRESS_CLAMP | CLK_FILTER_NEAREST;
__kernel void shift(__read_only image2d_t from, __write_only image2d_t to, __global float4 *copy)
{
    const int x = get_global_id(0), y = get_global_id(1);
    const float4 pixel = read_imagef(from, nearest, (int2)(x - 1, y + 1));
    write_imagef(to, (int2)(x, y), 2.0f * pixel);
    copy[y * get_global_size(0) + x] = pixel;
}
""",
    "cuda": """
struct Image { unsigned long long texture, data; int width, height, pitch, channels; };
extern "C" __global__ void shift(Image from, Image to, float4 *copy)
{
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    const float4 p = tex2D<float4>(from.texture, x - 1 + 0.5f, y + 1 + 0.5f);
    ((float4 *)(to.data + (unsigned long long)y * to.pitch))[x] = make_float4(2 * p.x, 2 * p.y, 2 * p.z, 2 * p.w);
    copy[y * from.width + x] = p;
}
""",
}


def test_kernels_sample_and_write_images(device: Device, queue: Queue) -> None:
    """In the back end's own language: what memory and samplers do, whatever the dialect makes of it. Outside reads 0."""
    if not device.info.images:
        pytest.skip(f"{device.info.id} has no images")
    data = np.random.default_rng(SEED).standard_normal((6, 8, 4)).astype(np.float32)
    expected = np.zeros_like(data)
    expected[:-1, 1:] = data[1:, :-1]
    built = device.target.compile(Source("image", IMAGE_TEXT[device.info.backend]))
    sampled, written = np.empty_like(data), np.empty_like(data)
    with (
        device.load(built) as module,
        device.image(8, 6, 4, "float32") as source,
        device.image(8, 6, 4, "float32") as target,
        device.allocate(data.nbytes) as copy,
    ):
        queue.upload(source, data)
        queue.launch(module.kernel("shift"), (8, 6, 1), (8, 1, 1), [source, target, copy])
        queue.download(sampled, copy)
        queue.download(written, target)
    assert (sampled.reshape(data.shape) == expected).all()
    assert (written == 2 * expected).all()


def test_impossible_images_raise(device: Device) -> None:
    with pytest.raises(LaunchError):
        device.image(8, 8, 3, "float32")
    with pytest.raises(LaunchError):
        device.image(device.info.image_2d_max[0] + 1, 8, 4, "float32")


VIEW_TEXT = """
__kernel void pick(__read_only image1d_buffer_t p, __global float4 *o) { const int i = get_global_id(0); o[i] = read_imagef(p, i); }
"""


def test_images_show_memory_where_it_lies(device: Device, queue: Queue) -> None:
    """No copy: what is written to the memory later is seen. The same image each time, gone with the memory."""
    if not device.info.image_buffer_max:
        pytest.skip(f"{device.info.id} has no images over buffers")
    module = device.load(program.build(Source("view.cl", VIEW_TEXT), device.target, None))
    kernel = module.kernel("pick")
    data = np.random.default_rng(SEED).standard_normal(50).astype(np.float32)
    memory, out = device.allocate(data.nbytes), device.allocate(16 * 50)
    for channels in (1, 4):
        form = ImageForm("image1d_buffer_t", (48 // channels, channels))
        view = device.image_over(memory, form)
        assert device.image_over(memory, form) is view
        for round_ in range(2):
            queue.upload(memory, data + round_)
            queue.launch(kernel, (48 // channels, 1, 1), (1, 1, 1), [view, out])
            result = np.empty((48 // channels, 4), np.float32)
            queue.download(result, out)
            assert (result[:, :channels] == (data[:48] + round_).reshape(-1, channels)).all()
    memory.release()
    assert view.handle is None
    with pytest.raises(LaunchError, match="released"):
        queue.launch(kernel, (1, 1, 1), (1, 1, 1), [view, out])
    with pytest.raises(ArgumentError, match="released"):
        device.image_over(memory, form)
    out.release()
    module.release()


def test_what_no_image_shows_is_refused(device: Device) -> None:
    if not device.info.image_buffer_max:
        pytest.skip(f"{device.info.id} has no images over buffers")
    with device.allocate(64) as memory, device.image(4, 4, 4, "float32") as image:
        with pytest.raises(ArgumentError, match="the memory has 64"):
            device.image_over(memory, ImageForm("image1d_buffer_t", (5, 4)))
        with pytest.raises(LaunchError, match="not as an image2d_t"):
            device.image_over(memory, ImageForm("image2d_t", (1, 1, 4)))
        with pytest.raises(ArgumentError, match="cannot show an image"):
            device.image_over(image, ImageForm("image1d_buffer_t", (1, 4)))


def test_textures_of_a_row_begin_at_aligned_addresses(device: Device, queue: Queue) -> None:
    """CUDA's begin at a multiple of 512 bytes; memory that another library gives may begin at any element."""
    if device.info.backend != "cuda":
        pytest.skip("OpenCL has no memory of other libraries")
    module = device.load(program.build(Source("view.cl", VIEW_TEXT), device.target, None))
    kernel = module.kernel("pick")
    data = np.random.default_rng(SEED).standard_normal(1024).astype(np.float32)
    with device.allocate(data.nbytes) as memory, device.allocate(16 * 300) as out:
        queue.upload(memory, data)
        for first, channels in ((4, 4), (132, 4), (3, 1), (129, 1), (130, 2)):
            part = device.adopt(memory.handle + 4 * first, 4 * (1024 - first), memory)
            view = device.image_over(part, ImageForm("image1d_buffer_t", (200, channels)))
            queue.launch(kernel, (200, 1, 1), (1, 1, 1), [view, out])
            result = np.empty((200, 4), np.float32)
            queue.download(result, out)
            assert (result[:, :channels] == data[first : first + 200 * channels].reshape(200, channels)).all(), (first, channels)
        odd = device.adopt(memory.handle + 4, 256, memory)
        with pytest.raises(LaunchError, match="multiple of 16 bytes"):
            device.image_over(odd, ImageForm("image1d_buffer_t", (4, 4)))
        for width in range(1, 400):  # textures are kept for the next image there, a bounded number of them
            device.image_over(part, ImageForm("image1d_buffer_t", (width, 1)))
            part.release_views()
        assert len(device._rows) <= 257  # type: ignore[attr-defined]
    module.release()
