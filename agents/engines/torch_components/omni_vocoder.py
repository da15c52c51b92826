"""Vocoder of Qwen2.5-Omni (Xu et al. 2025, section 2.3): codec tokens to sound, through mel frames."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from agents.engines.components.codes import CodecUnit, Codes
from agents.engines.torch_components.bigvgan import BigVgan, read_bigvgan
from agents.engines.torch_components.mel_denoiser import MelDenoiser, read_mel_denoiser
from agents.engines.torch_engine.layer_reader import LayerReader
from templates_lib.models.config_fields import Fields

_MOST_TOKENS = 3000
"""A minute of speech."""
_MOST_VOICE_FRAMES = 6000


@dataclass(frozen=True, slots=True, eq=False)
class OmniVocoder:
    denoiser: MelDenoiser
    sound: BigVgan
    takes: Codes
    hidden_size: int
    ffn_width: int

    def __call__(self, units: Sequence[CodecUnit]) -> list[torch.Tensor]:
        """Codes → (samples,) each."""
        return [self.sound(mel) for mel in self.denoiser(units)]


def read_omni_vocoder(root: Fields, reader: LayerReader) -> OmniVocoder:
    """`token2wav.` of the checkpoint."""
    fields, inside = root.part("token2wav_config"), reader.under("token2wav.")
    dit = fields.part("dit_config")
    denoiser = read_mel_denoiser(dit, inside.under("code2wav_dit_model."))
    sound = read_bigvgan(fields.part("bigvgan_config"), inside.under("code2wav_bigvgan_model."), denoiser.bands)
    takes = Codes(
        vocabulary=len(denoiser.codes),
        most=min(_MOST_TOKENS, dit.integer("max_position_embeddings", 32768, low=denoiser.frames) // denoiser.frames),
        voice_width=dit.integer("enc_emb_dim", low=1),
        bands=denoiser.bands,
        least_frames=denoiser.speaker.least_frames,
        most_frames=_MOST_VOICE_FRAMES,
        frames=denoiser.frames,
        samples=denoiser.frames * sound.samples,
        samples_per_s=24_000,
    )
    hidden = denoiser.from_mel.weight.shape[0]
    return OmniVocoder(denoiser, sound, takes, hidden, dit.integer("ff_mult", 2, low=1, high=64) * hidden)
