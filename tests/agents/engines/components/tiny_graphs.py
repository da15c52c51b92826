"""Small random models of several components, saved and run whole by transformers."""

from pathlib import Path
from typing import Any

import torch
from transformers import (
    Dinov2Config,
    Dinov2Model,
    InternVLConfig,
    InternVLForConditionalGeneration,
    PreTrainedModel,
    Qwen2_5_VLConfig,
    Qwen2_5_VLForConditionalGeneration,
    Qwen2_5OmniConfig,
    Qwen2_5OmniForConditionalGeneration,
    WhisperConfig,
    WhisperForConditionalGeneration,
)

from tests.agents.engines.tiny_models import save_random

LAYERS = 6
VOCABULARY = 96
IMAGE_TOKEN, VIDEO_TOKEN, AUDIO_TOKEN = 90, 91, 89
TEXT: dict[str, Any] = {
    "num_hidden_layers": LAYERS,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": VOCABULARY,
    "max_position_embeddings": 512,
    "bos_token_id": None,
    "eos_token_id": None,
    "pad_token_id": None,
}
QWEN_VL = Qwen2_5_VLConfig(
    text_config={**TEXT, "rope_parameters": {"rope_type": "default", "mrope_section": [2, 3, 3], "rope_theta": 1e4}},
    # Windows of 4 × 4 patches, which images of 6 × 10 leave parts of.
    vision_config={
        "depth": 3,
        "hidden_size": 48,
        "intermediate_size": 56,
        "num_heads": 3,
        "out_hidden_size": 64,
        "patch_size": 4,
        "window_size": 16,
        "fullatt_block_indexes": [1],
        "tokens_per_second": 1,
    },
    image_token_id=IMAGE_TOKEN,
    video_token_id=VIDEO_TOKEN,
    vision_start_token_id=92,
    vision_end_token_id=93,
)
INTERNVL = InternVLConfig(
    vision_config={
        "hidden_size": 48,
        "num_hidden_layers": 3,
        "num_attention_heads": 3,
        "intermediate_size": 56,
        "image_size": [28, 28],
        "patch_size": [7, 7],
        "attention_bias": True,
    },
    text_config={**TEXT, "model_type": "qwen2"},
    image_token_id=IMAGE_TOKEN,
    image_seq_length=4,
    tie_word_embeddings=False,
)
INTERNVL_LARGE = InternVLConfig(
    vision_config={**INTERNVL.vision_config.to_dict(), "attention_bias": False, "use_qk_norm": True}
    | {"norm_type": "rms_norm", "use_mean_pooling": False},
    text_config={**TEXT, "model_type": "qwen2"},
    image_token_id=IMAGE_TOKEN,
    tie_word_embeddings=False,
)
OMNI = Qwen2_5OmniConfig(
    enable_audio_output=False,
    thinker_config={
        "text_config": {**QWEN_VL.text_config.to_dict(), "model_type": "qwen2_5_omni_text"},
        "vision_config": QWEN_VL.vision_config.to_dict() | {"model_type": "qwen2_5_omni_vision_encoder"},
        # Windows of 20 frames, 0.2 s.
        "audio_config": {
            "num_mel_bins": 80,
            "encoder_layers": 2,
            "encoder_attention_heads": 4,
            "encoder_ffn_dim": 96,
            "d_model": 64,
            "n_window": 10,
            "output_dim": 64,
        },
        "image_token_index": IMAGE_TOKEN,
        "video_token_index": VIDEO_TOKEN,
        "audio_token_index": AUDIO_TOKEN,
        "vision_start_token_id": 92,
        "audio_start_token_id": 94,
    },
)
WHISPER = WhisperConfig(
    vocab_size=VOCABULARY,
    num_mel_bins=80,
    encoder_layers=3,
    decoder_layers=LAYERS,
    d_model=64,
    encoder_attention_heads=4,
    decoder_attention_heads=4,
    encoder_ffn_dim=96,
    decoder_ffn_dim=96,
    max_source_positions=50,
    max_target_positions=48,
    pad_token_id=0,
    bos_token_id=1,
    eos_token_id=None,
    decoder_start_token_id=3,
)
DINOV2 = Dinov2Config(
    hidden_size=48, num_hidden_layers=3, num_attention_heads=3, mlp_ratio=2, image_size=28, patch_size=7
)
GRAPHS: dict[str, tuple[type[Any], Any]] = {
    "qwen-vl": (Qwen2_5_VLForConditionalGeneration, QWEN_VL),
    "internvl": (InternVLForConditionalGeneration, INTERNVL),
    "internvl-large": (InternVLForConditionalGeneration, INTERNVL_LARGE),
    "omni": (Qwen2_5OmniForConditionalGeneration, OMNI),
    "whisper": (WhisperForConditionalGeneration, WHISPER),
    "dinov2": (Dinov2Model, DINOV2),
}
COMPONENT = {"whisper": "hearing", "omni-hearing": "hearing"}
"""The encoder's name in the graph, where it is not `vision`."""


def save_graph(name: str, folder: Path) -> PreTrainedModel:
    """Save graph `name`, with random weights, and return the whole model."""
    model_class, config = GRAPHS[name]
    torch.manual_seed(len(name))
    return save_random(model_class(config), folder, seed=len(name))
