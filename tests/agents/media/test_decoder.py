"""Pictures are decoded in processes of their own, which bear what is made to harm a decoder."""

import io
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageOps

from agents.media.decoder import Decoder, DecoderLimits, Decoders, DecoderStartError, Pixels
from templates_lib.media.image_header import ImageLimits, image_header, upright
from templates_lib.media.media_error import MediaError, MediaFault
from tests.media_files import PICTURES, endless_jpeg, exif, picture, png

LIMITS = ImageLimits()


@pytest.fixture(scope="module")
def decoder() -> Iterator[Decoder]:
    made = Decoder(DecoderLimits())
    yield made
    made.close()


def pixels_of(decoder: Decoder | Decoders, data: bytes) -> Pixels:
    return decoder.decode(image_header(data, LIMITS), data)


def array(pixels: Pixels) -> np.ndarray:
    return np.frombuffer(pixels.rgb, np.uint8).reshape(pixels.height, pixels.width, 3)


def fault_of(decoder: Decoder | Decoders, data: bytes) -> MediaFault:
    with pytest.raises(MediaError) as refused:
        pixels_of(decoder, data)
    return refused.value.fault


@pytest.mark.parametrize("name", [name for name in PICTURES if "alpha" not in name and "16" not in name])
def test_pixels_are_those_that_pillow_sees(decoder: Decoder, name: str) -> None:
    data = PICTURES[name]()
    with Image.open(io.BytesIO(data)) as opened:
        seen = np.asarray(ImageOps.exif_transpose(opened).convert("RGB"))
    assert np.array_equal(array(pixels_of(decoder, data)), seen)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_each_orientation_is_undone(decoder: Decoder, orientation: int) -> None:
    data = picture("JPEG", exif=exif(orientation))
    pixels = pixels_of(decoder, data)
    with Image.open(io.BytesIO(data)) as opened:
        seen = np.asarray(ImageOps.exif_transpose(opened))
    assert np.array_equal(array(pixels), seen)
    header = upright(image_header(data, LIMITS))
    assert (pixels.width, pixels.height) == (header.width, header.height)


def test_what_is_transparent_is_white(decoder: Decoder) -> None:
    made = io.BytesIO()
    clear = Image.new("RGBA", (2, 1), (0, 0, 0, 255))
    clear.putpixel((1, 0), (200, 0, 0, 0))
    clear.save(made, "PNG")
    assert array(pixels_of(decoder, made.getvalue())).tolist() == [[[0, 0, 0], [255, 255, 255]]]


def test_sixteen_bits_are_scaled_to_eight(decoder: Decoder) -> None:
    made = io.BytesIO()
    Image.fromarray(np.array([[0, 0x8000, 0xFFFF]], np.uint16)).save(made, "PNG")
    assert array(pixels_of(decoder, made.getvalue()))[0, :, 0].tolist() == [0, 0x80, 0xFF]


def test_damaged_pixels_are_refused_and_the_process_goes_on(decoder: Decoder) -> None:
    whole = picture("PNG", (64, 64))
    pixels_of(decoder, whole)
    before = decoder.pid
    assert fault_of(decoder, whole[:200] + bytes(300) + whole[500:]) is MediaFault.INVALID_IMAGE
    assert fault_of(decoder, whole[:300] + whole[-12:]) is MediaFault.INVALID_IMAGE
    jpeg = picture("JPEG", (64, 64))
    with pytest.raises(MediaError) as refused:
        decoder.decode(image_header(jpeg, LIMITS), jpeg[:700])
    assert refused.value.fault is MediaFault.INVALID_IMAGE
    pixels_of(decoder, whole)
    assert decoder.pid == before


def test_other_pixels_than_the_header_says_are_refused(decoder: Decoder) -> None:
    data = picture("PNG")
    header = replace(image_header(data, LIMITS), width=36)
    with pytest.raises(MediaError) as refused:
        decoder.decode(header, data)
    assert refused.value.fault is MediaFault.IMAGE_TOO_MANY_PIXELS


def test_a_picture_beyond_the_memory_is_refused_and_others_are_not() -> None:
    frugal = Decoder(DecoderLimits(memory_bytes=256 << 20))
    try:
        assert fault_of(frugal, png(40_000, 1000, rows=1)) is MediaFault.IMAGE_TOO_MANY_PIXELS
        assert pixels_of(frugal, picture("PNG")).width == 37
    finally:
        frugal.close()


def test_a_picture_that_takes_too_long_ends_its_process_alone() -> None:
    decoders = Decoders(2, DecoderLimits(cpu_s=1.0, timeout_s=60.0))
    try:
        bomb, small = endless_jpeg(4000, 40_000), picture("PNG")
        assert len(bomb) < LIMITS.max_bytes
        with ThreadPoolExecutor() as threads:
            waiting = threads.submit(fault_of, decoders, bomb)
            assert pixels_of(decoders, small).width == 37
            assert waiting.result() is MediaFault.IMAGE_TOO_MANY_PIXELS
            both = list(threads.map(lambda _: pixels_of(decoders, small).width, range(4)))
        assert both == [37] * 4
    finally:
        decoders.close()


def test_a_process_that_is_killed_is_replaced(decoder: Decoder) -> None:
    pixels_of(decoder, picture("PNG"))
    assert decoder.pid is not None
    killed = decoder.pid
    os.kill(killed, signal.SIGKILL)
    os.waitid(os.P_PID, killed, os.WEXITED | os.WNOWAIT)
    assert pixels_of(decoder, picture("GIF", mode="P")).width == 37
    assert decoder.pid != killed


def test_a_process_has_limits_and_no_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEDLEY_SECRET", "hush")
    decoder = Decoder(DecoderLimits(memory_bytes=300 << 20))
    try:
        pixels_of(decoder, picture("PNG"))
        process = Path(f"/proc/{decoder.pid}")
        assert b"hush" not in (process / "environ").read_bytes()
        said = {line[:26].strip(): line[26:].split()[0] for line in (process / "limits").read_text().splitlines()}
        assert said["Max address space"] == str(300 << 20)
        assert said["Max file size"] == said["Max core file size"] == "0"
        assert int(said["Max cpu time"]) < 60
    finally:
        decoder.close()
    assert decoder.pid is None


def test_a_decoder_that_cannot_start_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", shutil.which("false"))
    with pytest.raises(DecoderStartError):
        pixels_of(Decoder(DecoderLimits()), picture("PNG"))


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(sorted(PICTURES)), st.integers(0, 3000), st.binary(min_size=1, max_size=40))
def test_any_damage_gives_pixels_or_a_refusal(decoder: Decoder, name: str, at: int, junk: bytes) -> None:
    data = PICTURES[name]()
    at %= len(data)
    data = data[:at] + junk + data[at + len(junk) :]
    try:
        header = image_header(data, LIMITS)
        pixels = decoder.decode(header, data)
    except MediaError:
        return
    assert pixels.pieces == 1
    assert len(pixels.rgb) == 3 * pixels.width * pixels.height == 3 * header.width * header.height
