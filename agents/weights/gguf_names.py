"""Names of stored tensors in a GGUF file for those of the Hugging Face checkpoint."""

import re
from dataclasses import dataclass

ENDS = {
    "model.embed_tokens.weight": "token_embd.weight",
    "model.norm.weight": "output_norm.weight",
    "lm_head.weight": "output.weight",
}
IN_LAYER = {
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "mlp.gate": "ffn_gate_inp",
}
IN_EXPERTS = {"gate_proj": "ffn_gate_exps", "up_proj": "ffn_up_exps", "down_proj": "ffn_down_exps"}
_LAYER = re.compile(r"blk\.(\d+)\.(\w+)\.(weight|bias)")


@dataclass(frozen=True, slots=True)
class Location:
    stored: str
    expert: int | None = None
    """Index in the stored stack of all experts; None: the whole stored tensor."""


def locations(stored_names: dict[str, tuple[int, ...]]) -> dict[str, Location]:
    """Hugging Face name → location, for the stored tensors (name → shape) that are known."""
    found = {name: Location(stored) for name, stored in ENDS.items() if stored in stored_names}
    in_layer = {stored: name for name, stored in IN_LAYER.items()}
    in_experts = {stored: name for name, stored in IN_EXPERTS.items()}
    for stored, shape in stored_names.items():
        match = _LAYER.fullmatch(stored)
        if match is None:
            continue
        layer, part, kind = match.groups()
        if part in in_layer:
            found[f"model.layers.{layer}.{in_layer[part]}.{kind}"] = Location(stored)
        elif part in in_experts:
            for expert in range(shape[0]):
                found[f"model.layers.{layer}.mlp.experts.{expert}.{in_experts[part]}.{kind}"] = Location(stored, expert)
    return found
