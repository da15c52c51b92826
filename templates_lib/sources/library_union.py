"""Templates of one library added to another."""

from collections.abc import Collection, Iterable
from dataclasses import replace

import numpy as np

from templates_lib.values.library import Library
from templates_lib.values.work import WorkClass


def joined_classes(parts: Iterable[tuple[WorkClass, ...]]) -> tuple[WorkClass, ...]:
    """The classes of all parts, each once. Raises ValueError for one that two parts describe differently."""
    found: dict[str, WorkClass] = {}
    for each in (each for classes in parts for each in classes):
        if (known := found.setdefault(each.id, each)) != each:
            raise ValueError(
                f"work class {each.id} has to be the same in every source, but one has {known}, one {each}"
            )
    return tuple(found.values())


def union(base: Library, extra: Library) -> Library:
    """`base`, then `extra`'s templates (none of them in `base`), under `base`'s version.

    Configurations, classes and engines are matched by name; those that only `extra` has are appended. Templates of
    `extra` that were certified for a class of `base` under another objective stay out (`recertified_source`).
    """
    extra = _alike(base, extra)
    configs = base.configs + tuple(c for c in extra.configs if c not in base.configs)
    known = {c.id for c in base.classes}
    classes = base.classes + tuple(c for c in extra.classes if c.id not in known)
    nodes = np.zeros((base.size + extra.size, len(configs)), dtype=np.uint8)
    nodes[: base.size, : len(base.configs)] = base.nodes
    nodes[base.size :, [configs.index(c) for c in extra.configs]] = extra.nodes
    engines = base.engines + tuple(e for e in extra.engines if e not in base.engines)
    new_engine = np.array([engines.index(e) for e in extra.engines], dtype=np.int16)
    position = {c.id: index for index, c in enumerate(classes)}
    new_class = np.array([position[c.id] for c in extra.classes], dtype=np.int16)
    base_points = np.int32(len(base.point_template))
    return replace(
        base,
        configs=configs,
        classes=classes,
        ids=np.concatenate([base.ids, extra.ids]),
        nodes=nodes,
        point_template=np.concatenate([base.point_template, extra.point_template + np.int32(base.size)]),
        entry_point=np.concatenate([base.entry_point, extra.entry_point + base_points]),
        entry_class=np.concatenate([base.entry_class, new_class[extra.entry_class]]),
        entry_units_per_s=np.concatenate([base.entry_units_per_s, extra.entry_units_per_s]),
        engines=engines,
        template_engine=np.concatenate([base.template_engine, new_engine[extra.template_engine]]),
        limits={**base.limits, **extra.limits},
    )


def in_place_of(base: Library, own: Library, gone: Collection[str] = ()) -> Library:
    """`base`, where what `own` has templates of (its work classes) is `own`'s, under `base`'s version. `gone`: work
    classes whose templates are left out."""
    ours = {c.id: c for c in own.classes}
    is_theirs = np.array([c.id not in ours and c.id not in gone for c in base.classes], dtype=np.bool_)
    keep = np.ones(base.size, dtype=np.bool_)
    keep[base.point_template[base.entry_point[~is_theirs[base.entry_class]]]] = False
    rest = replace(base.select(keep), classes=tuple(ours.get(c.id, c) for c in base.classes))
    return union(rest, own.select(~np.isin(own.ids, rest.ids)))


def _alike(base: Library, extra: Library) -> Library:
    objectives = {c.id: c.slo_share_ms for c in base.classes}
    other = [objectives.get(c.id, c.slo_share_ms) != c.slo_share_ms for c in extra.classes]
    keep = np.ones(extra.size, dtype=np.bool_)
    keep[extra.point_template[extra.entry_point[np.array(other, dtype=np.bool_)[extra.entry_class]]]] = False
    return extra if keep.all() else extra.select(keep)
