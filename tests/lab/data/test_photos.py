"""Files of every kind become squares of bytes, or are refused with the reason."""

import io

import numpy as np
import pytest
from PIL import Image

from sparsegate_lab.data import Storing, load_data
from sparsegate_lab.data.photos import decode


def content(image, kind):
    """The file of an image."""
    file = io.BytesIO()
    image.save(file, kind)
    return file.getvalue()


@pytest.mark.parametrize("mode", ["L", "P", "RGBA", "CMYK", "1", "I;16"])
def test_every_kind_of_image_becomes_three_colours(mode, tmp_path):
    pixels = Image.fromarray(np.full((9, 12, 3), 200, np.uint8))
    image = (
        Image.fromarray(np.full((9, 12), 200 * 257, np.uint16))
        if mode == "I;16"
        else pixels.convert(mode)
    )
    path = tmp_path / ("a.tif" if mode == "CMYK" else "a.png")
    image.save(path)
    assert decode(path.read_bytes(), 4).shape == (3, 4, 4)


@pytest.mark.parametrize("kind", ["PNG", "TIFF", "PPM"])
def test_grey_of_16_bits_is_as_bright_as_of_8(kind):
    levels = np.linspace(0, 255, 16).round().astype(np.uint8).repeat(16).reshape(16, 16)
    for deep in (levels.astype(np.uint16) * 257, levels.astype(np.uint16) << 8):
        square = decode(content(Image.fromarray(deep), kind), 16)
        assert np.array_equal(square, np.stack([levels] * 3))


def test_grey_of_16_bits_with_the_large_byte_first_is_as_bright():
    pixels = np.full((4, 4), 0x6410, ">u2")
    image = Image.frombytes("I;16B", (4, 4), pixels.tobytes())
    assert np.unique(decode(content(image, "TIFF"), 4)).tolist() == [0x64]


@pytest.mark.parametrize(
    ("pixels", "reason"),
    [
        (
            np.full((4, 4), 0.6, np.float32),
            "expected 8 or 16 bits per channel, got floating-point numbers",
        ),
        (
            np.full((4, 4), 51400, np.int32),
            "expected 8 or 16 bits per channel, got 32-bit integers",
        ),
    ],
)
def test_pixels_of_no_known_range_are_refused(pixels, reason):
    with pytest.raises(ValueError, match=reason):
        decode(content(Image.fromarray(pixels), "TIFF"), 4)


def test_a_photograph_of_floating_point_numbers_is_named_or_left_out_as_asked(photographs):
    wide = content(Image.fromarray(np.full((9, 9), 0.6, np.float32)), "TIFF")
    (photographs / "val" / "red" / "03.tif").write_bytes(wide)
    with pytest.raises(
        ValueError,
        match=r"val/red/03.tif \(expected 8 or 16 bits per channel, got floating-point numbers",
    ):
        load_data(str(photographs), Storing(size=16))
    (note,) = load_data(str(photographs), Storing(size=16, bad_images="skip")).notes
    assert note.startswith("1 image does not decode and was left out: ")


@pytest.mark.parametrize(("height", "width"), [(64, 64), (100, 64), (64, 300), (5, 9), (1, 200)])
def test_the_middle_square_is_kept_at_the_wanted_size(height, width, tmp_path):
    pixels = np.zeros((height, width, 3), np.uint8)
    top, left, side = (
        (height - min(height, width)) // 2,
        (width - min(height, width)) // 2,
        min(height, width),
    )
    pixels[top : top + side, left : left + side] = 255
    Image.fromarray(pixels).save(tmp_path / "a.png")
    square = decode((tmp_path / "a.png").read_bytes(), 32)
    assert square.shape == (3, 32, 32)
    assert square[:, 12:20, 12:20].min() > 200
