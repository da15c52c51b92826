"""What a picture or a sound becomes for its encoder."""

import msgspec
import numpy as np
from numpy.typing import NDArray

from agents.engines.components.pictures import picture_unit
from agents.engines.components.unit_kinds import Patches, Tiles, UnitKind
from agents.media.decode_order import CHANNELS
from agents.media.decoder import Decoders
from agents.media.sound import heard
from agents.messages.to_preprocessor import PictureForm, PreparePicture, PrepareSound
from templates_lib.media.colours import Colours
from templates_lib.media.image_format import ImageHeader
from templates_lib.media.media_error import MediaError, MediaFault
from templates_lib.media.rules import RULES
from templates_lib.media.wav_header import WavHeader


def values_of(asked: PreparePicture | PrepareSound, decoders: Decoders) -> NDArray[np.float32]:
    """Values of the unit, as its encoder takes them. Raises MediaError for what is damaged, DecoderStartError."""
    if isinstance(asked, PrepareSound):
        header = WavHeader(asked.samples_per_s, asked.channels, asked.bits, asked.is_float, asked.start, asked.frames)
        if header.start + header.frames * header.frame_bytes > len(asked.data):
            raise MediaError(MediaFault.INVALID_AUDIO, "The WAV is damaged: its end is missing. Send the whole file")
        return heard(header, asked.data)
    form = asked.form
    rule = msgspec.convert(form.parameters, RULES[form.rule])
    seen = ImageHeader(asked.format, asked.width, asked.height, asked.orientation)
    pixels = decoders.decode(seen, asked.data, rule)
    pieces = np.frombuffer(pixels.rgb, np.uint8).reshape(pixels.pieces, pixels.height, pixels.width, CHANNELS)
    colours = Colours(form.mean, form.deviation)
    return picture_unit(asked.output.name, pieces, _kind(form, pixels.width), colours).values


def _kind(form: PictureForm, side: int) -> UnitKind:
    """The kind as far as values are laid out by it: how many rows come of them is the encoder's matter."""
    if form.layout == "patches":
        return Patches(CHANNELS, form.frames, form.patch, form.merge)
    return Tiles(CHANNELS, side, 1, 1)
