"""Templates of shared units: several models on one node of their own (MuxServe), each with a region of capacity."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from templates_lib.ports.cost_model import StageCostModel
from templates_lib.ports.source import Progress, TemplateBatch
from templates_lib.units.enumeration import EnumeratedUnit, EnumeratedUnits, Uses, enumerated_units, unit_of
from templates_lib.units.unit_capacity import ENGINE, MemberUse, ServedMember, member_use
from templates_lib.units.unit_template import DISPATCH, unit_template, work_class_of
from templates_lib.values.gpu import Gpu
from templates_lib.values.nearest_name import nearest_name
from templates_lib.values.node_config import NodeConfig
from templates_lib.values.work import WorkClass

KIND = "unit"
VERSION = 1
"""Of what is counted as their capacity."""
LEAST_MEMBERS = 2
MOST_LISTED = 1_500
"""Units of a node that are listed by themselves: those of three members of 20 models, and fewer members."""


@dataclass(frozen=True, slots=True)
class NamedUnit:
    """A unit that is made a template whatever its size."""

    config: str
    members: tuple[str, ...]
    """In alphabetical order."""


class UnitSource:
    """A `TemplateSource` with one unit of work per node configuration.

    Units of two members and more are listed while a node has no more than `MOST_LISTED`, all of one size or none;
    beyond these, those that are named (`also`).
    """

    kind = KIND
    engines = (ENGINE,)

    def __init__(
        self,
        members: Sequence[ServedMember],
        nodes: Sequence[NodeConfig],
        gpus: Mapping[str, Gpu],
        cost_model: StageCostModel,
        *,
        most_members: int,
        also: Sequence[NamedUnit] = (),
    ) -> None:
        """`gpus`: types by name."""
        self.members = {member.name: member for member in sorted(members, key=lambda member: member.name)}
        self._nodes, self._gpus = {node.id: node for node in nodes}, gpus
        self._cost_model, self._most, self._also = cost_model, most_members, also
        self.configs = tuple(self._nodes)
        self.classes: tuple[WorkClass, ...] = tuple(work_class_of(member) for member in self.members.values())

    @property
    def cost_model_fingerprint(self) -> str:
        return self._cost_model.fingerprint

    @property
    def fingerprint(self) -> str:
        held = [msgspec.to_builtins(member, enc_hook=_plain) for member in self.members.values()]
        for member in held:
            del member["model"]["stored"]  # what the checkpoint was before its engine loaded it
        content = {
            "kind": (KIND, VERSION, ENGINE, DISPATCH), "members": held, "nodes": list(self._nodes.values()),
            "gpus": [self._gpus[name] for name in sorted({node.gpu for node in self._nodes.values()})],
            "cost": self.cost_model_fingerprint, "limits": (self._most, MOST_LISTED), "also": list(self._also),
        }  # fmt: skip
        return hashlib.blake2b(msgspec.json.encode(content, order="sorted"), digest_size=16).hexdigest()

    def units(self) -> tuple[str, ...]:
        return self.configs

    def build(self, units: tuple[str, ...], progress: Progress) -> Iterator[TemplateBatch]:
        """Raises ValueError for an unknown unit."""
        for done, unit in enumerate(units):
            if unit not in self._nodes:
                raise ValueError(f"no unit of work {unit!r}; {nearest_name(unit, self._nodes)}")
            yield self._batch(unit, self.on(self._nodes[unit]))
            progress(unit, done + 1, len(units))

    def uses(self, node: NodeConfig) -> Uses:
        """What the models use of a node, of those that it can have as members. Equal models are worked out once."""
        known: dict[object, MemberUse | None] = {}
        found: dict[str, MemberUse | None] = {}
        for name, member in self.members.items():
            key = (member.model.id, member.model.revision, member.lengths, member.longest_tokens, member.ttft_s,
                   member.tpot_s, member.certified_prompt)  # fmt: skip
            if key not in known:
                known[key] = member_use(self._cost_model, member, node, self._gpus[node.gpu])
            found[name] = known[key]
        return {node.id: {name: use for name, use in found.items() if use is not None}}

    def has_all(self, node: NodeConfig) -> bool:
        """Tell whether all units of a node are listed."""
        listed = self._listed(node, self.uses(node))
        return listed.are_all or listed.members == self._most

    def _listed(self, node: NodeConfig, uses: Uses) -> EnumeratedUnits:
        most = MOST_LISTED + len(self.members)  # which are units of one member
        return enumerated_units(uses, [node], self._gpus, most_members=self._most, most_units=most)

    def on(self, node: NodeConfig) -> list[EnumeratedUnit]:
        """The units of a node."""
        uses = self.uses(node)
        listed = self._listed(node, uses)
        named = [each.members for each in self._also if each.config == node.id and len(each.members) <= self._most]
        found = {unit.members: unit for unit in listed.units if len(unit.members) >= LEAST_MEMBERS}
        for members in named:
            if members not in found and (unit := unit_of(node, members, uses, self._gpus)) is not None:
                found[unit.members] = unit
        return list(found.values())

    def _batch(self, config: str, units: Sequence[EnumeratedUnit]) -> TemplateBatch:
        made = [unit_template(unit, self.members, self.cost_model_fingerprint) for unit in units]
        number = {each.component: i for i, each in enumerate(self.classes)}
        nodes = np.zeros((len(made), len(self.configs)), dtype=np.uint8)
        nodes[:, self.configs.index(config)] = 1
        rows = np.arange(len(made), dtype=np.int32)
        entries = [(row, number[m.name], m.requests_per_s) for row, t in enumerate(made) for m in t.record.members]
        return TemplateBatch(
            unit=config,
            sets=len(made),
            templates=len(made),
            ids=np.array([each.id.encode() for each in made], dtype="S32"),
            nodes=nodes,
            point_template=rows,
            entry_point=np.array([row for row, _, _ in entries], dtype=np.int32),
            entry_class=np.array([k for _, k, _ in entries], dtype=np.int16),
            entry_units_per_s=np.array([rate for _, _, rate in entries], dtype=np.float64),
            template_engine=np.zeros(len(made), dtype=np.int16),
            records=tuple(msgspec.msgpack.encode(each.record) for each in made),
            # Members are in alphabetical order, as their classes are.
            limits={
                row: tuple(zip(*(m.uses for m in each.record.members), strict=True)) for row, each in enumerate(made)
            },
        )


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"cannot fingerprint a {type(value).__name__}")
