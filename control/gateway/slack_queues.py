"""The queues of all models under `slack-v1`, and which of them send to whom."""

from collections.abc import Callable, Mapping

from control.gateway.call import Call
from control.gateway.model_entry import ModelEntry
from control.gateway.slack_queue import BindsCalls, SlackQueue
from control.gateway.slack_rows import MemberState


class SlackQueues:
    """Make it on a running loop."""

    def __init__(self, owner: BindsCalls, wait_s: float) -> None:
        """`wait_s`: how long a call may wait for an instance when none can be used."""
        self._owner, self._wait_s = owner, wait_s
        self.by_model: dict[str, SlackQueue] = {}
        self._by_instance: dict[str, list[SlackQueue]] = {}

    def __len__(self) -> int:
        """Count the calls that wait."""
        return sum(map(len, self.by_model.values()))

    def update(self, models: Mapping[str, ModelEntry]) -> list[Call]:
        """Have a queue for each model under `slack-v1`; calls that wait in another are to be dispatched anew."""
        own = {name: model for name, model in models.items() if model.is_by_slack}
        gone = self.by_model.keys() - own.keys()
        left = [call for name in gone for call in self.by_model.pop(name).take_all()]
        self._by_instance = {}
        for name, model in own.items():
            queue = self.by_model.get(name)
            if queue is None:
                queue = self.by_model[name] = SlackQueue(model, self._owner, self._wait_s)
            else:
                queue.update(model)
            for member in model.served.routing.members:
                self._by_instance.setdefault(member.id, []).append(queue)
        return left

    def leave(self, call: Call) -> None:
        queue = self.by_model.get(call.asked.model)
        if queue is not None:
            queue.leave(call)

    def note(self, instance: str, state: Callable[[], MemberState]) -> None:
        """Tell those that send to an instance what it could take now; nobody asks for its `state` where none does."""
        queues = self._by_instance.get(instance)
        if queues is not None:
            now = state()
            for queue in queues:
                queue.note(instance, now)
