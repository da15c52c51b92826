"""`medley_model`."""

from medley_terraform.client import Json
from medley_terraform.failure import Failure
from medley_terraform.failure_report import report_failure, top_level
from medley_terraform.fleet_file import NAME_LIMITS
from medley_terraform.report import Report
from medley_terraform.resource import Change, Resource
from medley_terraform.resources.common import ID, VERSION, already_there, settled
from medley_terraform.schema import Schema, State
from medley_terraform.types import Attribute, Limits, Scalar, computed
from medley_terraform.unknown import UNKNOWN, is_known

_FACTS = ("revision", "layers", "hidden_size", "vocab_size", "dtype", "weight_bytes", "max_context_tokens")
_REFUSED = frozenset({"invalid", "conflict"})


class ModelResource(Resource):
    name = "model"
    import_id = "the name"
    schema = Schema(
        "A model of your own, registered by its architecture so that fleets may name it. Models of the catalogue that "
        "Medley ships need no registration.",
        (
            Attribute(
                "name",
                "Up to 63 letters, digits, dots, hyphens and underscores; not one of the catalogue.",
                required=True,
                replaces=True,
                limits=NAME_LIMITS,
            ),
            Attribute(
                "config",
                'The model\'s `config.json` as Hugging Face publishes it: `file("config.json")`.',
                Scalar.JSON,
                required=True,
            ),
            Attribute(
                "weights",
                "Where nodes find the weights: `hf:ORG/NAME@REVISION`, `package:NAME` or `path:/PATH`. "
                "Without it, fleets say it.",
                default="",
                limits=Limits(pattern=r"hf:[A-Za-z0-9._/@-]{1,250}|package:[A-Za-z0-9._-]{1,100}|path:/[ -~]{1,250}|"),
            ),
            ID,
            VERSION,
            computed("revision", "Hash of the configuration: it changes with it."),
            computed("layers", "Transformer layers.", Scalar.NUMBER),
            computed("hidden_size", "Width of the hidden state.", Scalar.NUMBER),
            computed("vocab_size", "Tokens of the vocabulary.", Scalar.NUMBER),
            computed("dtype", "Data type of the weights."),
            computed("weight_bytes", "Bytes of all weights as served.", Scalar.NUMBER),
            computed("max_context_tokens", "Longest prompt and answer together.", Scalar.NUMBER),
        ),
    )

    def plan(self, change: Change, report: Report) -> State:
        """Medley reads the configuration at plan time, so that what it cannot serve is refused before apply."""
        said: State = dict.fromkeys(("version", *_FACTS), UNKNOWN)
        if self.session.connected is None or not is_known(
            [change.planned[name] for name in ("name", "config", "weights")]
        ):
            return said
        try:
            found = self.session.client.check("/models:check", _body(change.planned))
        except Failure as failure:
            if failure.name not in _REFUSED:
                raise
            report_failure(failure, report, top_level)
            return said
        return said | {name: found[name] for name in _FACTS}

    def create(self, planned: State, report: Report) -> State:  # noqa: ARG002
        body = _body(planned)

        def as_made(made: Json) -> bool:
            found = self.session.client.find(f"/models/{made['name']}")
            return found is not None and _is(found, planned)

        try:
            return _shown(self.session.client.create("/models", body, as_made))
        except Failure as failure:
            raise already_there("medley_model", planned["name"], failure) from None

    def read(self, state: State, report: Report) -> State | None:  # noqa: ARG002
        found = self.session.client.find(f"/models/{state['name']}")
        if found is None or found["source"] != "registered":
            return None
        return _shown(found)

    def update(self, prior: State, planned: State, report: Report) -> State:  # noqa: ARG002
        path, body = f"/models/{planned['name']}", _body(planned)
        del body["name"]
        return _shown(
            settled(
                lambda: self.session.client.put(path, body, prior["version"]),
                lambda: self.session.client.find(path),
                lambda there: _is(there, planned),
            )
        )

    def delete(self, state: State, report: Report) -> None:  # noqa: ARG002
        self.session.client.delete(f"/models/{state['name']}", state["version"])


def _body(planned: State) -> Json:
    return {name: planned[name] for name in ("name", "config", "weights")}


def _is(found: Json, planned: State) -> bool:
    return bool(found["config"] == planned["config"] and found["weights"] == planned["weights"])


def _shown(found: Json) -> State:
    return {name: found[name] for name in ("name", "config", "weights", "version", *_FACTS)} | {"id": found["name"]}
