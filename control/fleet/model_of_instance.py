"""The architecture that an instance of layers runs."""

from control.db.database import Database
from control.db.instances import PostgresInstances
from control.db.registered_models import PostgresModels
from templates_lib.models.catalogue import load_models
from templates_lib.models.model_spec import ModelSpec, in_fp32

_FP32 = "fp32"


def model_of_instance(database: Database, instance: str) -> ModelSpec | None:
    """Return the model that an instance runs, in the numbers that it is served in; None where its architecture came
    from a file, or was registered and is gone. Raises NotStoredError, DatabaseUnavailableError."""
    template = PostgresInstances(database).template(instance)
    found = load_models().get(template.model)
    if found is None:
        found = next((own.spec() for own in PostgresModels(database).own() if own.name == template.model), None)
    return in_fp32(found) if found is not None and template.dtype == _FP32 != found.dtype else found
