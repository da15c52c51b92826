"""Pictures and sounds of a request, up to what their headers say: what they are refused for, and what units of encoders
they become."""

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

import msgspec

from control.gateway.api_error import ApiError, bad_request, media_refused
from control.gateway.body_budget import BodyHold
from control.gateway.generation_params import GenerationParams, media_of
from control.gateway.media.inline import DATA, inline_audio, inline_image
from control.gateway.media.media_unit import MediaUnit, MediaUnits, content_key
from control.gateway.media.modality import check_modalities
from control.gateway.media.part import MediaPart
from control.gateway.media.reading import MediaReading
from control.gateway.model_entry import ModelEntry
from templates_lib.graphs.component import Modality
from templates_lib.graphs.media_tokens import heard_rows
from templates_lib.media.image_format import ImageHeader
from templates_lib.media.image_header import ImageLimits, image_header, upright
from templates_lib.media.image_layout import ImageSizeError
from templates_lib.media.media_error import MediaError, MediaFault
from templates_lib.media.wav_header import AudioLimits, WavHeader, wav_header

if TYPE_CHECKING:
    from control.gateway.media.fetcher import ImageFetcher

T = TypeVar("T")
_THREADS = 2
"""That read pictures: base64 and headers are work of milliseconds, and more threads would only take turns."""


class MediaIntake:
    def __init__(self, images: ImageLimits, sounds: AudioLimits, fetcher: "ImageFetcher | None") -> None:
        """`fetcher`: None where no URL may be fetched."""
        self._images = images
        self._sounds = sounds
        self._fetcher = fetcher
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="media")

    def close(self) -> None:
        self._threads.shutdown(cancel_futures=True)

    async def read(
        self, params: GenerationParams, models: Mapping[str, ModelEntry], hold: BodyHold
    ) -> MediaUnits | None:
        """All that a request brings; None where it brings nothing, or its model is not known. `hold`: has the request's
        body, and from now on what is fetched for it.

        Raises ApiError that names the part and what is wrong with it.
        """
        model = models.get(params.model)
        parts = [part for prompt in params.prompts for part in media_of(prompt)]
        if model is None or not parts:
            return None
        check_modalities(parts, model)
        reading = model.reading
        if reading is None:  # what a model without one takes is text
            return None
        _check_counts(parts, reading)
        tasks = [asyncio.ensure_future(self._unit(part, reading, hold)) for part in parts]
        try:
            return MediaUnits(tuple(await asyncio.gather(*tasks)))
        finally:
            for task in tasks:
                task.cancel()

    async def _unit(self, part: MediaPart, reading: MediaReading, hold: BodyHold) -> MediaUnit:
        """Raises ApiError."""
        try:
            if part.modality is Modality.IMAGE:
                header, data = await self._image(part.source, hold)
                return await self._run(_image_unit, header, data, reading)
            if part.data is not None:
                found, data = await self._run(wav_header, part.data, self._sounds), part.data
            else:
                found, data = await self._run(inline_audio, part.source, part.format, self._sounds)
            return await self._run(_audio_unit, found, data, reading)
        except MediaError as error:
            raise _refused(error, part) from None

    async def _image(self, url: str, hold: BodyHold) -> tuple[ImageHeader, bytes]:
        """Raises MediaError, and ApiError 503 where there is no memory for what was fetched."""
        if url[: len(DATA)].lower() == DATA:
            return await self._run(inline_image, url, self._images)
        if self._fetcher is None:
            why = "This gateway fetches no images. Send the image itself as a `data:` URL"
            raise MediaError(MediaFault.FORBIDDEN_URL, why)
        data = await self._fetcher.fetch(url)
        hold.add(len(data))
        try:
            return await self._run(image_header, data, self._images), data
        except MediaError as error:
            if error.fault is not MediaFault.INVALID_IMAGE:
                raise
            raise MediaError(MediaFault.IMAGE_FETCH_FAILED, f"What was fetched is no image. {error.message}") from None

    async def _run(self, do: Callable[..., T], *arguments: object) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, do, *arguments)


def _image_unit(header: ImageHeader, data: bytes, reading: MediaReading) -> MediaUnit:
    """Raises MediaError for a size that the model does not read."""
    if reading.images is None:  # a part of a kind that the model does not read was refused before
        raise MediaError(MediaFault.UNSUPPORTED_IMAGE_FORMAT, "The model reads no images. Leave it out")
    seen = upright(header)
    try:
        layout = reading.images.layout(seen.width, seen.height)
    except ImageSizeError as error:
        raise MediaError(MediaFault.INVALID_IMAGE, f"The model does not read it: {error}") from None
    form = reading.form
    is_patched = form is not None and form.layout == "patches"
    merge = 1 if form is None else form.merge
    return MediaUnit(
        Modality.IMAGE,
        header,
        data,
        content_key(b"" if form is None else msgspec.msgpack.encode(form), data),
        layout.image_tokens,
        layout.prompt_tokens,
        (1, layout.rows, layout.columns) if is_patched else None,
        (1, layout.rows // merge, layout.columns // merge) if is_patched else None,
    )


def _audio_unit(header: WavHeader, data: bytes, reading: MediaReading) -> MediaUnit:
    """Raises MediaError for what is longer than the model hears at once."""
    if reading.hears is not None and reading.attends:
        window_s = reading.hears.padded_units / reading.hears.units_per_second
        if header.seconds > window_s:
            why = f"The audio has {header.seconds:.1f} s; the model hears {window_s:g} s at once. Send it in pieces"
            raise MediaError(MediaFault.AUDIO_TOO_LARGE, why)
    rows = 0 if reading.hears is None else heard_rows(reading.hears, header.frames, header.samples_per_s)
    return MediaUnit(Modality.AUDIO, header, data, content_key(b"sound", data), rows, 0 if reading.attends else rows)


def _check_counts(parts: list[MediaPart], reading: MediaReading) -> None:
    """Raise ApiError for more than the model takes in one request, before any of it is read."""
    images = sum(part.modality is Modality.IMAGE for part in parts)
    for what, found, most, fault in (
        ("images", images, reading.terms.max_images, MediaFault.TOO_MANY_IMAGES),
        ("sounds", len(parts) - images, reading.terms.max_clips, MediaFault.TOO_MANY_CLIPS),
    ):
        if found > most:
            why = f"The request has {found} {what}; {most} are the most of this model. Send fewer"
            raise bad_request(why, "messages", fault)


def _refused(error: MediaError, part: MediaPart) -> ApiError:
    return media_refused(error, f"`{part.where}`: {error.message}")
