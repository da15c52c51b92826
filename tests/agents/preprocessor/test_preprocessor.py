"""The preprocessor in a process of its own: what it makes of pictures and sounds, and what becomes of what is wrong."""

import asyncio
import io
import os
import signal

import numpy as np
import pytest
from PIL import Image
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

from agents.media.sound import heard
from agents.messages.to_preprocessor import Output
from agents.messages.to_sidecar import SidecarAddress
from agents.tensors.client import TensorClient
from agents.transfer.errors import BlobGoneError
from control.gateway.media.media_unit import MediaUnit, content_key
from control.gateway.media.preprocessor import Preprocessor
from control.gateway.media.reading import reading_of
from control.gateway.published import MediaTerms
from templates_lib.graphs.catalogue import graph_facts, load_graph
from templates_lib.graphs.component import Modality
from templates_lib.graphs.unit_room import unit_bytes
from templates_lib.media.image_header import ImageLimits, image_header
from templates_lib.media.media_error import MediaError, MediaFault
from templates_lib.media.wav_header import AudioLimits, wav_header
from tests.agents.tensors.nodes import SETTINGS, run_node
from tests.control.db.processes import lives, wait_until
from tests.media_files import picture, wav

LOOK = {"rescale_factor": 1 / 255, "image_mean": [0.5, 0.4, 0.3], "image_std": [0.2, 0.3, 0.4]}
READING = reading_of(MediaTerms(graph_facts("qwen2.5-vl-7b")["config"] | {"preprocessor_config": LOOK}))
TRANSFORMERS = Qwen2VLImageProcessorPil(image_mean=LOOK["image_mean"], image_std=LOOK["image_std"])
KEEP_S, PATIENCE_S = 30.0, 60.0


def unit_of(data: bytes, modality: Modality = Modality.IMAGE) -> MediaUnit:
    is_image = modality is Modality.IMAGE
    header = image_header(data, ImageLimits()) if is_image else wav_header(data, AudioLimits())
    return MediaUnit(modality, header, data, content_key(b"", data), 1, 1)


def test_it_has_room_for_the_largest_picture_of_the_models_that_are_served() -> None:
    preprocessor = Preprocessor(())
    usual = preprocessor.slab_mib
    preprocessor.serve([load_graph("whisper-tiny.en")])
    assert preprocessor.slab_mib == usual
    preprocessor.serve([load_graph("whisper-tiny.en"), load_graph("qwen2.5-vl-7b")])
    assert preprocessor.slab_mib > unit_bytes(load_graph("qwen2.5-vl-7b"))[0] >> 20 > usual
    preprocessor.serve([])
    assert preprocessor.slab_mib == usual
    fixed = Preprocessor((), 8)
    fixed.serve([load_graph("qwen2.5-vl-7b")])
    assert fixed.slab_mib == 8


def test_pictures_and_sounds_are_as_their_encoders_take_them() -> None:
    async def scenario(node: TensorClient) -> None:
        preprocessor = Preprocessor(("--decoders", "1"), 8)

        async def prepared(name: str, unit: MediaUnit) -> SidecarAddress:
            return await preprocessor.prepare(unit, READING, Output(name, unit.key, KEEP_S))

        async def taken(name: str, unit: MediaUnit) -> np.ndarray:
            place = await prepared(name, unit)
            return np.array((await asyncio.to_thread(node.take, name, place, wait_s=PATIENCE_S)).array)

        try:
            data = picture("PNG", (90, 61))
            expected = TRANSFORMERS(Image.open(io.BytesIO(data)), return_tensors="np")["pixel_values"]
            for name in ("first", "again"):
                np.testing.assert_allclose(await taken(name, unit_of(data)), expected, rtol=0, atol=1e-5)

            sound = wav(np.random.default_rng(1).integers(-(2**15), 2**15, 2 * 4410, np.int16).tobytes(), 44_100, 2)
            unit = unit_of(sound, Modality.AUDIO)
            np.testing.assert_array_equal(await taken("sound", unit), heard(unit.header, sound))

            with pytest.raises(MediaError) as refused:
                await prepared("damaged", unit_of(data[:-60]))
            assert refused.value.fault is MediaFault.INVALID_IMAGE
            with pytest.raises(MediaError) as refused:  # it becomes more numbers than there will ever be room for
                await prepared("large", unit_of(picture("PNG", (2000, 2000))))
            assert refused.value.fault is MediaFault.IMAGE_TOO_LARGE

            assert preprocessor.pid is not None
            os.kill(preprocessor.pid, signal.SIGKILL)
            gone = preprocessor.pid
            wait_until(lambda: not lives(gone))  # and the loop has not been told yet
            np.testing.assert_allclose(await taken("after", unit_of(data)), expected, rtol=0, atol=1e-5)

            place = await prepared("nobody", unit_of(data))
            preprocessor.discard("nobody")
            await prepared("behind", unit_of(data))
            with pytest.raises(BlobGoneError):
                await asyncio.to_thread(node.take, "nobody", place, wait_s=0.5)
        finally:
            await preprocessor.close()

    with run_node(SETTINGS) as node:
        asyncio.run(scenario(node.client()))
