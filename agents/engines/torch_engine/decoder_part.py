"""The decoder of a model of several components, as a checkpoint of a plain decoder."""

from typing import Any

from agents.weights.checkpoint import Checkpoint
from agents.weights.part import PartOfCheckpoint, without_prefix
from templates_lib.models.config_fields import Fields, UnsupportedModelError

QWEN_VL = "qwen2_5_vl_text"
WHISPER = "whisper"
PARTS = (QWEN_VL, WHISPER)
"""`model_type`s of decoders that are part of a graph alone: no engine is planned for them as models of text."""
_NESTED = {"qwen2_5_vl": QWEN_VL, "qwen2_5_omni": QWEN_VL, "internvl": ""}
"""`model_type` → that of its decoder, where `text_config` does not name it (it is in older files at the root)."""
_WHISPER_NORM = "layer_norm."
_BARE = "embed_tokens.weight"


def decoder_part(checkpoint: Checkpoint) -> Checkpoint:
    """Return the decoder of a checkpoint, which may be all there is. Raises UnsupportedModelError."""
    family = checkpoint.config.get("model_type")
    if family == WHISPER:
        return _of_whisper(checkpoint)
    if family not in _NESTED:
        return _of_bare(checkpoint)
    # Names as they are published, and as transformers has called them in between.
    names = without_prefix(
        checkpoint.names, "model.language_model.", "language_model.model.", "thinker.model.", "model."
    )
    names = {f"model.{name}": stored for name, stored in names.items()}
    head = without_prefix(checkpoint.names, "language_model.lm_head.", "thinker.lm_head.", "lm_head.")
    names |= {f"lm_head.{name}": stored for name, stored in head.items()}
    # Whether the two are one matrix is said at either level of a config, and not always the same; files know it.
    config = _text_config(checkpoint.config, _NESTED[family]) | {"tie_word_embeddings": not head}
    return PartOfCheckpoint(checkpoint, config, names)


def _of_bare(checkpoint: Checkpoint) -> Checkpoint:
    """Models of embeddings are published as transformers' base model: without `model.` before their names, and without
    an LM head."""
    if _BARE not in checkpoint.names:
        return checkpoint
    names = {f"model.{name}": name for name in checkpoint.names}
    return PartOfCheckpoint(checkpoint, checkpoint.config | {"tie_word_embeddings": True}, names)


def _text_config(root: dict[str, Any], family: str) -> dict[str, Any]:
    fields = Fields.of(root, "")
    if fields.table("thinker_config") is not None:
        fields = fields.part("thinker_config")
    inner = fields.table("text_config")
    text = dict(root if inner is None else inner)
    if family:
        text["model_type"] = family
    if not isinstance(text.get("model_type"), str):
        raise UnsupportedModelError("text_config.model_type", "is missing: it names the decoder")
    if "quantization_config" in root:  # of the whole model
        text.setdefault("quantization_config", root["quantization_config"])
    return text


def _of_whisper(checkpoint: Checkpoint) -> Checkpoint:
    names = without_prefix(checkpoint.names, "model.decoder.")
    named = {
        f"model.norm.{name.removeprefix(_WHISPER_NORM)}" if name.startswith(_WHISPER_NORM) else f"model.{name}": stored
        for name, stored in names.items()
    }
    return PartOfCheckpoint(checkpoint, checkpoint.config, named)
