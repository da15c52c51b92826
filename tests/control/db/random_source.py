"""A template source that makes random templates: small or large, deterministic, and watchable."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import numpy as np

from templates_lib.ports.source import Progress, TemplateBatch
from templates_lib.values.work import Unit, WorkClass


@dataclass(frozen=True)
class RandomSource:
    """`sizes` templates per unit; each has 1 … `max_points` operating points of 1 … (number of classes) classes.

    With a `journal`, the name of every unit that is built is appended to it.
    """

    sizes: tuple[int, ...] = (5, 0, 7)
    configs: tuple[str, ...] = ("A100:1/n50", "L4:1/n10", "T4:4/n25")
    class_ids: tuple[str, ...] = ("a/prefill", "a/decode")
    max_points: int = 2
    seed: int = 0
    engines: tuple[str, ...] = ("echo+torch", "vllm")
    limits: int = 0
    """Of each template with one point."""
    journal: Path | None = None
    built: list[str] = field(default_factory=list)

    kind = "random"

    @property
    def fingerprint(self) -> str:
        content = repr((self.sizes, self.configs, self.class_ids, self.max_points, self.seed, self.limits))
        return hashlib.blake2b(content.encode(), digest_size=16).hexdigest()

    @property
    def cost_model_fingerprint(self) -> str:
        return f"random-{self.seed}"

    @property
    def classes(self) -> tuple[WorkClass, ...]:
        return tuple(WorkClass(c, "a", c.split("/")[-1], Unit.PROMPT_TOKEN, "shape", 100.0) for c in self.class_ids)

    def units(self) -> tuple[str, ...]:
        return tuple(f"unit-{i}" for i in range(len(self.sizes)))

    def build(self, units: tuple[str, ...], progress: Progress) -> Iterator[TemplateBatch]:
        # Backwards: a store may not rely on the order.
        for done, unit in enumerate(reversed(units), start=1):
            self.built.append(unit)
            if self.journal is not None:
                with self.journal.open("a") as journal:
                    journal.write(f"{unit}\n")
            yield self.batch(unit)
            progress("random templates", done, len(units))

    def batch(self, unit: str) -> TemplateBatch:
        index = self.units().index(unit)
        size = self.sizes[index]
        rng = np.random.default_rng([self.seed, index])
        points = rng.integers(1, self.max_points + 1, size)
        point_template = np.repeat(np.arange(size, dtype=np.int32), points)
        classes = rng.integers(1, len(self.class_ids) + 1, len(point_template))
        entry_point = np.repeat(np.arange(len(point_template), dtype=np.int32), classes)
        first = np.searchsorted(entry_point, entry_point)
        nodes = rng.integers(0, 5, (size, len(self.configs)), dtype=np.uint8)
        nodes[:, 0] += 1
        return TemplateBatch(
            unit=unit,
            sets=3 * size,
            templates=2 * size,
            ids=np.frombuffer(rng.bytes(16 * size).hex().encode(), dtype="S32"),
            nodes=nodes,
            point_template=point_template,
            entry_point=entry_point,
            entry_class=(np.arange(len(entry_point)) - first).astype(np.int16),
            entry_units_per_s=rng.uniform(0.1, 1e4, len(entry_point)),
            template_engine=rng.integers(0, len(self.engines), size, dtype=np.int16),
            records=tuple(msgspec.json.encode([unit, i]) + bytes(i % 7) for i in range(size)),
            limits={
                int(row): tuple(tuple(rng.uniform(0, 1, own).tolist()) for _ in range(self.limits))
                for row, own in zip(point_template, classes, strict=True)
                if self.limits and points[row] == 1
            },
        )
