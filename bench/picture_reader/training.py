"""Trains the connector alone: first towards the words' own embeddings, then through the language model."""

import time
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch.nn import functional
from transformers import InternVLForConditionalGeneration, PreTrainedTokenizerFast

from bench.picture_reader.assembling import DEVIATION, END, MEAN, ROWS
from bench.picture_reader.drawing import Drawn

QUESTION = "What is in the picture?"
_BATCH = 32
_ALIGN_STEPS, _ALIGN_RATE = 400, 1e-3
_RATE = 1e-3


def prompt_of(tokenizer: PreTrainedTokenizerFast, mark: int, question: str = QUESTION) -> list[int]:
    """Token ids of a question about one picture, with a token for each of its rows."""
    content = [{"type": "image"}, {"type": "text", "text": question}]
    text = tokenizer.apply_chat_template(
        [{"role": "user", "content": content}], tokenize=False, add_generation_prompt=True
    )
    ids = tokenizer(text, add_special_tokens=False).input_ids
    at = ids.index(mark)
    return [*ids[:at], *[mark] * ROWS, *ids[at + 1 :]]


@torch.no_grad()
def seen(model: InternVLForConditionalGeneration, pictures: Sequence[Drawn]) -> torch.Tensor:
    """(pictures, ROWS, width) what the encoder sees, as the connector takes it."""
    inner, made = model.model, []
    for start in range(0, len(pictures), _BATCH):
        pixels = np.stack([each.pixels for each in pictures[start : start + _BATCH]]).astype(np.float32) / 255
        values = (torch.from_numpy(pixels) - torch.tensor(MEAN)) / torch.tensor(DEVIATION)
        states = inner.vision_tower(pixel_values=values.permute(0, 3, 1, 2)).last_hidden_state[:, 1:]
        side = round(states.shape[1] ** 0.5)
        merged = inner.pixel_shuffle(states.reshape(len(states), side, side, -1), scale_factor=0.5)
        made.append(merged.reshape(len(states), ROWS, -1))
    return torch.cat(made)


def train(
    model: InternVLForConditionalGeneration,
    tokenizer: PreTrainedTokenizerFast,
    pictures: Sequence[Drawn],
    steps: int,
    seed: int,
) -> None:
    """Both parts of the training, on one seed."""
    torch.manual_seed(seed)
    features = seen(model, pictures)
    model.requires_grad_(False)
    connector = model.model.multi_modal_projector.requires_grad_(True)
    _align(model, tokenizer, features, pictures)
    language = model.model.language_model
    mark = model.config.image_token_id
    prompt, answers = prompt_of(tokenizer, mark), [_answer(tokenizer, each) for each in pictures]
    first = prompt.index(mark)
    optimiser = torch.optim.AdamW(connector.parameters(), lr=_RATE, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, _RATE, total_steps=steps, pct_start=0.1)
    began_s = time.perf_counter()
    for step, chosen in zip(range(steps), _batches(len(pictures)), strict=False):
        longest = max(len(answers[n]) for n in chosen)
        ids = torch.tensor([[*prompt, *answers[n], *[answers[n][-1]] * (longest - len(answers[n]))] for n in chosen])
        labels = torch.full_like(ids, -100)
        for row, n in enumerate(chosen):
            labels[row, len(prompt) : len(prompt) + len(answers[n])] = torch.tensor(answers[n])
        rows = connector(features[chosen])
        embedded = language.get_input_embeddings()(ids)
        embedded = torch.cat((embedded[:, :first], rows, embedded[:, first + ROWS :]), dim=1)
        with torch.autocast("cpu", torch.bfloat16):
            hidden = language(inputs_embeds=embedded, use_cache=False).last_hidden_state
            # Of the answers alone: a row of the head has 49,152 columns.
            logits = model.lm_head(hidden[:, len(prompt) - 1 : -1])
        loss = functional.cross_entropy(logits.float().flatten(0, 1), labels[:, len(prompt) :].flatten())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
        if step % 20 == 0 or step == steps - 1:
            print(f"step {step:4}: loss {loss.item():.3f}, {time.perf_counter() - began_s:.0f} s", flush=True)


def _align(
    model: InternVLForConditionalGeneration,
    tokenizer: PreTrainedTokenizerFast,
    features: torch.Tensor,
    pictures: Sequence[Drawn],
) -> None:
    """Rows near the embeddings of colour and shape, in turn: the language model knows these words."""
    connector, table = model.model.multi_modal_projector, model.get_input_embeddings().weight
    words = [[tokenizer(f" {word}").input_ids[-1] for word in (each.colour, each.shape)] for each in pictures]
    targets = table[torch.tensor(words)].repeat(1, ROWS // 2, 1)
    targets = targets / targets.std()
    optimiser = torch.optim.AdamW(connector.parameters(), lr=_ALIGN_RATE, weight_decay=0.01)
    for _, chosen in zip(range(_ALIGN_STEPS), _batches(len(pictures)), strict=False):
        loss = functional.mse_loss(connector(features[chosen]), targets[chosen])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    with torch.no_grad():  # as small as embeddings are
        connector.linear_2.weight.mul_(table.std())
        connector.linear_2.bias.mul_(table.std())
    print(f"aligned: loss {loss.item():.3f} of 1", flush=True)


def _answer(tokenizer: PreTrainedTokenizerFast, picture: Drawn) -> list[int]:
    return tokenizer(picture.name + END, add_special_tokens=False).input_ids


def _batches(count: int) -> Iterator[list[int]]:
    while True:
        order = torch.randperm(count).tolist()
        yield from (order[start : start + _BATCH] for start in range(0, count - _BATCH + 1, _BATCH))
