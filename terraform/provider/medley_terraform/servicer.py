"""Terraform's protocol 6. It is the library's service with two differences that money needs: what is to be made is
planned by its resource, too, and Terraform's wish to end ends waiting, not what is under way."""

from collections.abc import Callable
from typing import Any

from tf.gen import tfplugin_pb2 as pb
from tf.gen import tfplugin_pb2_grpc as rpc

from medley_terraform import wire
from medley_terraform.failure import Failure
from medley_terraform.failure_report import report_failure
from medley_terraform.planning import planned, settled
from medley_terraform.provider import DATA_SOURCES, PROVIDER, RESOURCES, configure, validate_provider
from medley_terraform.report import Report, attribute_path
from medley_terraform.resource import DataSource, Resource
from medley_terraform.session import Session
from medley_terraform.validation import check
from medley_terraform.values import plain, raw_of

PREFIX = "medley_"


class Servicer(rpc.ProviderServicer):  # type: ignore[misc]
    """Methods and their arguments are named by the protocol. Terraform calls ten at a time."""

    def __init__(self) -> None:
        self._session = Session()

    def GetMetadata(self, request: Any, context: Any) -> Any:  # noqa: ARG002
        return pb.GetMetadata.Response(
            server_capabilities=_capabilities(),
            resources=[pb.GetMetadata.ResourceMetadata(type_name=PREFIX + name) for name in RESOURCES],
            data_sources=[pb.GetMetadata.DataSourceMetadata(type_name=PREFIX + name) for name in DATA_SOURCES],
        )

    def GetProviderSchema(self, request: Any, context: Any) -> Any:  # noqa: ARG002
        return pb.GetProviderSchema.Response(
            provider=PROVIDER.message(),
            resource_schemas={PREFIX + name: each.schema.message() for name, each in RESOURCES.items()},
            data_source_schemas={PREFIX + name: each.schema.message() for name, each in DATA_SOURCES.items()},
            server_capabilities=_capabilities(),
        )

    def ValidateProviderConfig(self, request: Any, context: Any) -> Any:  # noqa: ARG002
        report = Report()
        validate_provider(wire.read(request.config), report)
        return pb.ValidateProviderConfig.Response(diagnostics=report.messages)

    def ConfigureProvider(self, request: Any, context: Any) -> Any:  # noqa: ARG002
        report = Report()
        _reporting(report, lambda: configure(self._session, wire.read(request.config), report))
        return pb.ConfigureProvider.Response(diagnostics=report.messages)

    def ValidateResourceConfig(self, request: Any, context: Any) -> Any:  # noqa: ARG002
        report, resource, config = Report(), self._resource(request), wire.read(request.config)
        check(resource.schema.shape, config, report)
        if not report.failed:
            resource.validate(plain(resource.schema.shape, config), report)
        return pb.ValidateResourceConfig.Response(diagnostics=report.messages)

    def ValidateDataResourceConfig(self, request: Any, context: Any) -> Any:  # noqa: ARG002
        report, source = Report(), self._data_source(request)
        check(source.schema.shape, wire.read(request.config), report)
        return pb.ValidateDataResourceConfig.Response(diagnostics=report.messages)

    def UpgradeResourceState(self, request: Any, context: Any) -> Any:  # noqa: ARG002
        """There is one version of each schema so far: a state is as it was written."""
        return pb.UpgradeResourceState.Response(upgraded_state=pb.DynamicValue(json=request.raw_state.json))

    def ReadResource(self, request: Any, context: Any) -> Any:  # noqa: ARG002
        report, resource, current = Report(), self._resource(request), wire.read(request.current_state)
        shape = resource.schema.shape

        def read() -> Any:
            found = resource.read(plain(shape, current), report)
            return None if found is None else raw_of(shape, found, current)

        state = _reporting(report, read, current)
        return pb.ReadResource.Response(
            new_state=wire.written(state), private=request.private, diagnostics=report.messages
        )

    def PlanResourceChange(self, request: Any, context: Any) -> Any:  # noqa: ARG002
        report, resource = Report(), self._resource(request)
        prior, proposed = wire.read(request.prior_state), wire.read(request.proposed_new_state)
        if proposed is None:
            return pb.PlanResourceChange.Response(planned_state=wire.written(None))
        config = wire.read(request.config)
        found = _reporting(report, lambda: planned(resource, prior, proposed, config, report))
        if found is None:
            return pb.PlanResourceChange.Response(planned_state=request.proposed_new_state, diagnostics=report.messages)
        return pb.PlanResourceChange.Response(
            planned_state=wire.written(found.raw),
            requires_replace=[attribute_path((name,)) for name in found.replaced_for],
            planned_private=request.prior_private,
            diagnostics=report.messages,
        )

    def ApplyResourceChange(self, request: Any, context: Any) -> Any:  # noqa: ARG002
        report, resource = Report(), self._resource(request)
        prior, new = wire.read(request.prior_state), wire.read(request.planned_state)
        shape = resource.schema.shape

        def applied() -> Any:
            if new is None:
                resource.delete(plain(shape, prior), report)
                return prior if report.failed else None
            if prior is None:
                made = resource.create(plain(shape, new), report)
            else:
                made = resource.update(plain(shape, prior), plain(shape, new), report)
            return settled(resource, new, made)

        state = _reporting(report, applied, prior)
        return pb.ApplyResourceChange.Response(
            new_state=wire.written(state), private=request.planned_private, diagnostics=report.messages
        )

    def ImportResourceState(self, request: Any, context: Any) -> Any:  # noqa: ARG002
        report, resource = Report(), self._resource(request)
        shape = resource.schema.shape
        known = resource.identified(request.id, report)
        imported = []
        if known is not None:
            state = wire.written(raw_of(shape, known))
            imported = [pb.ImportResourceState.ImportedResource(type_name=request.type_name, state=state)]
        return pb.ImportResourceState.Response(imported_resources=imported, diagnostics=report.messages)

    def ReadDataSource(self, request: Any, context: Any) -> Any:  # noqa: ARG002
        report, source, config = Report(), self._data_source(request), wire.read(request.config)
        shape = source.schema.shape

        def read() -> Any:
            found = source.read(plain(shape, config), report)
            return {**config, **{name: raw_of(shape.named(name).type, value) for name, value in found.items()}}

        return pb.ReadDataSource.Response(
            state=wire.written(_reporting(report, read, config)), diagnostics=report.messages
        )

    def GetFunctions(self, request: Any, context: Any) -> Any:  # noqa: ARG002
        return pb.GetFunctions.Response()

    def StopProvider(self, request: Any, context: Any) -> Any:  # noqa: ARG002
        """Finish what is under way, so that its outcome is known, and wait for nothing."""
        self._session.stopping.set()
        return pb.StopProvider.Response()

    def _resource(self, request: Any) -> Resource:
        return RESOURCES[request.type_name.removeprefix(PREFIX)](self._session)

    def _data_source(self, request: Any) -> DataSource:
        return DATA_SOURCES[request.type_name.removeprefix(PREFIX)](self._session)


def _capabilities() -> Any:
    return pb.ServerCapabilities(get_provider_schema_optional=True)


def _reporting(report: Report, work: Callable[[], Any], otherwise: Any = None) -> Any:
    """Return what `work` gives; `otherwise` when the API refuses, which is then reported."""
    try:
        return work()
    except Failure as failure:
        report_failure(failure, report)
        return otherwise
