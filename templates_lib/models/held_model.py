"""A model as an engine holds it, or why the engine does not run it and what would."""

from collections.abc import Collection
from dataclasses import replace

from templates_lib.models.model_spec import ModelSpec
from templates_lib.values.engine_support import PLAIN_BYTES, EngineSupport
from templates_lib.values.engines import DEFAULT_ENGINE, ENGINES, EngineKind, support_at, support_of
from templates_lib.values.stored_weights import StoredMatrices, StoredWeights


def held_by(engine: str, model: ModelSpec) -> ModelSpec:
    """`model` in the bytes and data types that `engine` holds after loading: formats that it does not keep are widened,
    whatever the checkpoint takes on disk.

    As it is: a model whose checkpoint nobody described, and one that the engine does not run (`refusal`)."""
    support, stored = support_of(engine), model.stored
    if stored is None or refusal(engine, model.id, stored) is not None:
        return model
    main = support.weights.get(model.dtype, model.dtype)
    attention = model.attention_dtype or model.dtype
    attention = support.weights.get(attention, attention)
    dense = _more_bytes(support, stored.dense_ffn)
    routed = _more_bytes(support, stored.experts) + _more_bytes(support, stored.shared_experts)
    return replace(
        model,
        dtype=main,
        activation_dtype=support.computed_in(model.activation_dtype),
        kv_dtype=support.computed_in(model.kv_dtype),
        attention_dtype="" if attention == main else attention,
        attention_weight_bytes=model.attention_weight_bytes + _more_bytes(support, stored.attention),
        ffn_weight_bytes=model.ffn_weight_bytes + (routed if model.experts else dense),
        dense_ffn_weight_bytes=model.dense_ffn_weight_bytes + (dense if model.dense_layers else 0.0),
        ends_in_each_part=stored.family in support.ends_in_each_part,
    )


def default_engines(clouds: Collection[str], stored: StoredWeights | None) -> tuple[str, ...]:
    """Return the engines of a model for which nobody names one, on nodes of these clouds, the preferred one first:
    those that have whole models on a node, where nodes start them, and `DEFAULT_ENGINE`, which cuts a model over
    nodes and runs wherever Medley does. Of a checkpoint that nobody described it is known of the latter alone that it
    can be tried; where none of them runs a checkpoint, the latter says why."""
    if stored is None:
        return (DEFAULT_ENGINE,)
    found = [name for name, kind in ENGINES.items() if kind.computes and (kind.is_whole or name == DEFAULT_ENGINE)]
    found = [name for name in found if any(_is_run(name, cloud, stored) for cloud in clouds)]
    found.sort(key=lambda name: not ENGINES[name].is_whole)
    return tuple(found) or (DEFAULT_ENGINE,)


def _is_run(engine: str, cloud: str, stored: StoredWeights) -> bool:
    """Tell whether nodes of a cloud start the engine, and it runs the checkpoint there."""
    support = support_at(engine, cloud)
    return support is not None and _why_not("", support, "", stored) is None


def refusal(engine: str, model: str, stored: StoredWeights) -> str | None:
    """Say why `engine` does not run this checkpoint of a model, and what would; None: it runs it. The planner and nodes
    say it in these words."""
    why = _why_not(f"engine {engine}", support_of(engine), model, stored)
    return None if why is None else f"{why}; {_instead(engine, support_of(engine), stored)}"


def refusal_of_node(engine: str, model: str, stored: StoredWeights) -> str | None:
    """The same of a node that is about to load it, wherever it is."""
    kind = ENGINES[engine]
    support = kind.rented or kind.here or kind.support
    why = _why_not(f"engine {engine}", support, model, stored)
    return None if why is None else f"{why}; {_instead(engine, support, stored)}"


def refusal_at(cloud: str, engine: str, model: str, stored: StoredWeights) -> str | None:
    """The same of nodes of a cloud, whose engine may do less than it could; None, too, where they have no such
    engine."""
    support = support_at(engine, cloud)
    why = None if support is None else _why_not(f"engine {engine} on nodes of {cloud}", support, model, stored)
    return None if support is None or why is None else f"{why}; {_instead(engine, support, stored)}"


def _why_not(engine: str, support: EngineSupport, model: str, stored: StoredWeights) -> str | None:
    if not support.knows(stored.family):
        named = f"of family {stored.family!r}" if stored.family else "of no family (its config.json has no model_type)"
        return f"model {model} is {named}, which {engine} does not run: it runs {_list(support.families or ())}"
    unread = [each for each in stored.formats if not support.reads(stored.family, each)]
    if not unread and (unattended := support.unattended(stored)):
        return f"model {model} has {unattended}: {engine} does not run it"
    if not unread:
        return None
    return (
        f"model {model} has weights in {' and '.join(unread)}, which {engine} does not read in models of family "
        f"{stored.family!r}: it reads {_list(_readable(support, stored.family))}"
    )


def _instead(engine: str, support: EngineSupport, stored: StoredWeights) -> str:
    is_format = not all(support.reads(stored.family, each) for each in stored.formats)
    readable = _readable(support, stored.family) if support.knows(stored.family) and is_format else ()
    ways = [f"name a checkpoint of it in {'bf16' if 'bf16' in readable else readable[0]}"] if readable else []
    ways += [
        f"set `engine: {name}`{_where(kind, stored)}"
        for name, kind in ENGINES.items()
        if name != engine and kind.computes and _why_not(name, kind.support, "", stored) is None
    ]
    return ", or ".join(ways) or f"choose a model of a family that it runs, such as {_list(support.families or ())}"


def _where(kind: EngineKind, stored: StoredWeights) -> str:
    """Say how far an engine that runs the checkpoint can be started by nodes, where it cannot everywhere."""
    here, rented = (at is not None and _why_not("", at, "", stored) is None for at in (kind.here, kind.rented))
    if here and rented:
        return ""
    return (
        f", which starts on {'nodes of this machine' if here else 'rented nodes'} only"
        if here or rented
        else (", with which it is planned, and not started anywhere yet")
    )


def _readable(support: EngineSupport, family: str) -> tuple[str, ...]:
    return tuple(each for each in support.weights if support.reads(family, each))


def _more_bytes(support: EngineSupport, kind: StoredMatrices) -> float:
    """Bytes that matrices of a kind take in one layer beyond what the checkpoint stores."""
    held = support.weights.get(kind.dtype, kind.dtype)
    return 0.0 if held == kind.dtype else kind.weights * (PLAIN_BYTES[held] - kind.bytes_per_weight)


def _list(names: Collection[str]) -> str:
    return ", ".join(sorted(names))
