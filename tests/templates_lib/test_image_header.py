"""Headers of pictures say what Pillow finds in them, and nothing but an error comes of what is no picture."""

import io
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageOps

from templates_lib.media.image_format import ImageFormat
from templates_lib.media.image_header import ImageLimits, image_header, upright
from templates_lib.media.media_error import MediaError, MediaFault
from tests.media_files import PICTURES, animation, picture, png

LIMITS = ImageLimits()
PILLOW = {ImageFormat.PNG: "PNG", ImageFormat.JPEG: "JPEG", ImageFormat.WEBP: "WEBP", ImageFormat.GIF: "GIF"}


@pytest.mark.parametrize("name", PICTURES)
def test_a_header_says_what_is_in_the_file(name: str) -> None:
    data = PICTURES[name]()
    header = image_header(data, LIMITS)
    with Image.open(io.BytesIO(data)) as opened:
        assert (PILLOW[header.format], header.width, header.height) == (opened.format, *opened.size)
        seen = ImageOps.exif_transpose(opened)
        assert seen.size == (upright(header).width, upright(header).height)
    assert ("turned" in name) == header.is_turned
    claimed = header.format.media_types[0]
    assert image_header(data, LIMITS, claimed) == header


@pytest.mark.parametrize("name", PICTURES)
def test_a_file_that_ends_early_or_has_a_byte_changed_is_read_or_refused(name: str) -> None:
    data = PICTURES[name]()
    for end in range(min(len(data), 200)):
        with pytest.raises(MediaError):
            image_header(data[:end], LIMITS)
    for at in range(min(len(data), 120)):
        for value in (0, 0x7F, 0xFF):
            attempt(data[:at] + bytes([value]) + data[at + 1 :])


def attempt(data: bytes) -> None:
    """Read, or refused: nothing else."""
    try:
        header = image_header(data, LIMITS)
    except MediaError:
        return
    assert 0 < header.width * header.height <= LIMITS.max_pixels


MAGICS = (b"", b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR", b"\xff\xd8\xff", b"RIFF\x40\x00\x00\x00WEBP", b"GIF89a")


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(MAGICS), st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(magic: bytes, rest: bytes) -> None:
    attempt(magic + rest)


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(sorted(PICTURES)), st.data())
def test_pictures_with_parts_swapped_or_repeated_are_read_or_refused(name: str, draw: st.DataObject) -> None:
    data = PICTURES[name]()
    start, end = sorted(draw.draw(st.tuples(*[st.integers(0, len(data))] * 2)))
    attempt(data[:start] + data[start:end] * draw.draw(st.integers(0, 3)) + data[end:])


def test_a_size_beyond_the_limit_is_refused_by_the_header() -> None:
    for size in ((40_001, 1000), (1000, 40_001), ((1 << 31) - 1, (1 << 31) - 1)):
        with pytest.raises(MediaError) as refused:
            image_header(png(*size, rows=0), LIMITS)
        assert refused.value.fault is MediaFault.IMAGE_TOO_MANY_PIXELS
    assert image_header(png(40_000, 1000, rows=0), LIMITS).width == 40_000


def test_a_file_beyond_the_limit_is_refused_unread() -> None:
    with pytest.raises(MediaError) as refused:
        image_header(picture("PNG"), ImageLimits(max_bytes=100))
    assert refused.value.fault is MediaFault.IMAGE_TOO_LARGE


@pytest.mark.parametrize(
    "data",
    [
        animation("GIF"),
        animation("PNG"),
        animation("WEBP"),
        b'<?xml version="1.0"?><svg xmlns="http://www.w3.org/2000/svg"/>',
        b"\xef\xbb\xbf  <svg width='9'/>",
        b"PK\x03\x04" + bytes(60),
        picture("BMP"),
        picture("TIFF"),
        b"\x00\x00\x00\x18ftypheic" + bytes(40),
        b"%PDF-1.7",
        picture("JPEG").replace(b"\xff\xc0", b"\xff\xc3", 1),
    ],
    ids=["gif", "apng", "webp", "svg", "svg-bom", "zip", "bmp", "tiff", "heic", "pdf", "lossless-jpeg"],
)
def test_animations_and_other_formats_are_not_supported(data: bytes) -> None:
    with pytest.raises(MediaError) as refused:
        image_header(data, LIMITS)
    assert refused.value.fault is MediaFault.UNSUPPORTED_IMAGE_FORMAT


def test_a_picture_of_another_format_than_claimed_is_invalid() -> None:
    with pytest.raises(MediaError) as refused:
        image_header(picture("JPEG"), LIMITS, "image/png")
    assert refused.value.fault is MediaFault.INVALID_IMAGE
    assert image_header(picture("JPEG"), LIMITS, "image/jpg").format is ImageFormat.JPEG
    assert image_header(picture("JPEG"), LIMITS, "application/octet-stream").format is ImageFormat.JPEG


@pytest.mark.parametrize("data", [b"", b"hello", bytes(100), b"\xff\xd8\xff", b"GIF89a", b"RIFFxxxxWEBP"])
def test_what_is_no_picture_is_invalid(data: bytes) -> None:
    with pytest.raises(MediaError) as refused:
        image_header(data, LIMITS)
    assert refused.value.fault is MediaFault.INVALID_IMAGE


def test_a_gif_whose_picture_is_larger_than_its_screen_is_invalid() -> None:
    data = bytearray(picture("GIF", mode="P"))
    data[6:8] = (36).to_bytes(2, "little")
    with pytest.raises(MediaError) as refused:
        image_header(bytes(data), LIMITS)
    assert refused.value.fault is MediaFault.INVALID_IMAGE


def test_endless_parts_do_not_keep_a_reader() -> None:
    """A file that has as many parts as bytes allow is given up after a bounded number of them."""
    whole = picture("PNG")
    empty = (0).to_bytes(4) + b"teXt" + zlib.crc32(b"teXt").to_bytes(4)
    gif = picture("GIF", mode="P")
    for data in (
        whole[:33] + empty * 100_000 + whole[33:],
        b"\xff\xd8" + b"\xff\xe0\x00\x02" * 100_000 + picture("JPEG")[2:],
        gif[:13] + b"!\xfe\x00" * 300_000 + gif[13:],
    ):
        with pytest.raises(MediaError) as refused:
            image_header(data, LIMITS)
        assert refused.value.fault is MediaFault.INVALID_IMAGE
