"""Any-to-any models that Medley knows, as graphs of components, and the tasks that ship for them."""

from pydantic import BaseModel, Field

from control.api.documented import problems
from control.api.guarded_route import api_router
from control.api.page import Items
from control.planning.graph_document import GraphDocument, known_graphs
from control.tasks.shipped_task import shipped_names

router = api_router("graphs")


class Task(BaseModel):
    task: str = Field(description="What `apps[].task` of a spec takes; the name of its graph.")
    request_types: list[str] = Field(description="What comes in and what goes out.")


@router.get("/graphs", responses=problems())
def list_graphs() -> Items[GraphDocument]:
    """List the any-to-any models that an app of a spec may name."""
    return Items(items=list(known_graphs()))


@router.get("/tasks", responses=problems())
def list_tasks() -> Items[Task]:
    """List the tasks that ship with Medley. Those of files are not known here: a spec that is sent may name none."""
    types = {each.graph: list(each.request_types) for each in known_graphs()}
    return Items(items=[Task(task=name, request_types=types[name]) for name in shipped_names()])
