"""Qwen-Image's denoiser and decoder with small random weights: what they make is what diffusers makes."""

import pytest
import torch

from agents.engines.torch_components.picture_decoder import read_picture_decoder
from agents.engines.torch_components.picture_denoiser import Tensors, read_picture_denoiser
from agents.engines.torch_components.word_pictures import unpacked
from bench.word_pictures.denoising import packed
from templates_lib.models.config_fields import Fields
from tests.agents.engines.components.tiny_pictures import CONFIG

pytestmark = [pytest.mark.slow, pytest.mark.needs("diffusers")]

VAE = {
    "base_dim": 8,
    "dim_mult": [1, 2, 4],
    "num_res_blocks": 2,
    "z_dim": 4,
    "temperal_downsample": [False, True],
    "latents_mean": [0.1, -0.2, 0.0, 0.3],
    "latents_std": [1.0, 1.5, 0.5, 2.0],
}


def randomised(model: torch.nn.Module) -> torch.nn.Module:
    draw = torch.Generator().manual_seed(5)
    for parameter in model.parameters():
        parameter.data += 0.2 * torch.randn(parameter.shape, generator=draw) / max(1.0, parameter[0].numel() ** 0.5)
    return model.eval()


def tensors_of(model: torch.nn.Module) -> Tensors:
    held = model.state_dict()

    def tensor(name: str, shape: tuple[int, ...]) -> torch.Tensor:
        assert tuple(held[name].shape) == shape, name
        return held[name]

    return tensor


@torch.inference_mode()
def test_the_velocity_is_that_of_diffusers_for_texts_of_unlike_lengths() -> None:
    from diffusers import QwenImageTransformer2DModel

    config = CONFIG["transformer"]
    model = randomised(QwenImageTransformer2DModel(**config))
    denoiser = read_picture_denoiser(Fields.of(config, ""), tensors_of(model))
    rows, columns, draw = 3, 4, torch.Generator().manual_seed(1)
    latents = torch.randn(2, rows * columns, config["in_channels"], generator=draw)
    text = torch.randn(2, 5, config["joint_attention_dim"], generator=draw)
    is_text = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])
    sigma = torch.tensor([0.9, 0.35])
    expected = model(
        hidden_states=latents,
        encoder_hidden_states=text,
        encoder_hidden_states_mask=is_text,
        timestep=sigma,
        img_shapes=[[(1, rows, columns)]] * 2,
        return_dict=False,
    )[0]
    found = denoiser(latents, sigma, text, is_text, columns)
    assert expected.std() > 0.1
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-4)


@torch.inference_mode()
def test_pixels_are_those_of_diffusers() -> None:
    from diffusers import AutoencoderKLQwenImage

    torch.manual_seed(5)  # its own first weights are random, too: whatever ran before, they are these
    model = randomised(AutoencoderKLQwenImage(**VAE))
    decoder = read_picture_decoder(Fields.of(VAE, ""), tensors_of(model))
    latents = torch.randn(2, 4, 6, 4, generator=torch.Generator().manual_seed(2))
    plain = latents * torch.tensor(VAE["latents_std"])[:, None, None] + torch.tensor(VAE["latents_mean"])[:, None, None]
    expected = model.decode(plain[:, :, None]).sample[:, :, 0]
    assert expected.std() > 0.1
    assert decoder(latents).shape == (2, 3, 24, 16)
    torch.testing.assert_close(decoder(latents), expected, rtol=0, atol=1e-4)


def test_rows_are_unpacked_as_they_are_packed_for_training() -> None:
    latents = torch.randn(2, 4, 6, 8, generator=torch.Generator().manual_seed(3))
    torch.testing.assert_close(unpacked(packed(latents, 2), (3, 4), 2), latents, rtol=0, atol=0)
