"""The published figure that parsed mixtures of experts are compared with."""

from templates_lib.models.model_spec import ModelSpec


def active_weight_bytes(model: ModelSpec) -> float:
    """Bytes that one token's pass touches."""
    if model.experts is None:
        return model.weight_bytes
    width = model.experts.count * model.experts.intermediate_size + model.experts.shared_intermediate_size
    used = model.experts.active * model.experts.intermediate_size + model.experts.shared_intermediate_size
    moe_layers = model.layers - model.dense_layers
    return model.weight_bytes - moe_layers * model.ffn_weight_bytes * (1 - used / width)
