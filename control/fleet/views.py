"""What is on record of all instances, as views."""

from control.db.database import Database
from control.db.instances import PostgresInstances
from control.db.nodes import PostgresNodes
from control.db.plans import PostgresPlans
from control.fleet.view import InstanceView, instance_view
from control.fleet.wanted import Wanted, wanted
from control.hub.gang import gang_of


def instance_views(database: Database) -> list[InstanceView]:
    """Of all that are not terminated, by fleet and id."""
    instances, nodes, plans = PostgresInstances(database), PostgresNodes(database), PostgresPlans(database)
    planned: dict[str, tuple[Wanted, ...]] = {}
    views = []
    for instance in instances.living():
        plan_id = instances.plan_of(instance.id)
        if plan_id not in planned:
            try:
                planned[plan_id] = wanted(plans.load(plan_id))
            except LookupError:
                planned[plan_id] = ()  # thrown away
        column = (instance.template_id, instance.zone, instance.market)
        of_it = next((each for each in planned[plan_id] if each.column == column), None)
        template = instances.template(instance.id)
        views.append(instance_view(instance, of_it, template.model, gang_of(template), nodes.of_instance(instance.id)))
    return views
