"""Figures 5 and 9: where the time to the first token goes, and what tensor parallelism does to each stage, by
estimate."""

from bench.modserve.stages import MODELS, TEXT_GPUS, Stages, median_text, stages_of

SIDE_PX = 896
SPLITS = (1, 2, 4, 8)
CONTEXT = 2048.0
PAPER_SHARE = {"Llama 3.2 11B": 0.79, "InternVL 26B": 0.25}
"""Of encoding in the time to the first token (3.1)."""


def run() -> bool:
    """Print milliseconds."""
    text = median_text()
    for name in MODELS:
        stages = stages_of(name)
        picture = stages.parts(SIDE_PX, SIDE_PX)
        print(f"{name}: a picture of {SIDE_PX} x {SIDE_PX} ({sum(picture):,} image tokens), {text} tokens of text")
        print(f"{'GPUs':>6}{'encode ms':>11}{'tokens/s a GPU':>16}{'prefill ms':>12}{'TBT ms':>8}")
        for gpus in SPLITS:
            encode_s, prefill_s, tbt_s = _times(stages, gpus, picture, text)
            print(f"{gpus:6}{1000 * encode_s:11.1f}{sum(picture) / encode_s / gpus:16,.0f}{1000 * prefill_s:12.1f}"
                  f"{1000 * tbt_s:8.1f}")  # fmt: skip
        encode_s, prefill_s, _ = _times(stages, TEXT_GPUS, picture, text)
        share = encode_s / (encode_s + prefill_s)
        one, batch = stages.encode(1), stages.batch(1)
        gain = batch * one.seconds(picture[0], 1) / one.seconds(batch * picture[0], batch)
        print(f"  on {TEXT_GPUS} GPUs {share:.0%} of the time to the first token is encoding (paper "
              f"{PAPER_SHARE[name]:.0%}); the batch of an encoder on one GPU is {batch}, {gain:.2f} times as fast as "
              f"one by one")  # fmt: skip
    return True


def _times(stages: Stages, gpus: int, picture: tuple[int, ...], text: int) -> tuple[float, float, float]:
    encode_s = sum(stages.encode(gpus).seconds(part, 1) for part in picture)
    try:
        times = stages.text(gpus, with_encoder=True)
    except ValueError:
        return encode_s, float("nan"), float("nan")
    return encode_s, times.prompt_s(text, sum(picture)), times.seconds(0, 0.0, 1, CONTEXT, 0)
