"""Random requests: forks, joins, loads and batches."""

import random

import numpy as np

from policies.workflows.call_request import CallRequest
from policies.workflows.shared_place import Place, QueuedBatch, avail_s

SERVICES = ("vit", "llm", "sd")
MOST_BATCH = 4


def random_place(chance: random.Random) -> Place:
    at_s, batches = 0.0, []
    for number in range(chance.randrange(3)):
        ends_s = at_s + chance.uniform(0.1, 2.0)
        starts_s = -1.0 if number == 0 else at_s
        batches.append(QueuedBatch(chance.choice(SERVICES), chance.randint(1, MOST_BATCH), starts_s, ends_s))
        at_s = ends_s
    loaded = {name: chance.choice((0.0, 0.7)) for name in SERVICES if chance.random() < 0.6}
    return Place(tuple(batches), loaded)


def random_request(chance: random.Random, most_calls: int = 6, most_places: int = 4) -> CallRequest:
    calls, places = chance.randint(1, most_calls), [random_place(chance) for _ in range(chance.randint(1, most_places))]
    if len(places) > 1 and chance.random() < 0.5:
        places[-1] = places[0]  # some are alike
    inputs = tuple(tuple(sorted(chance.sample(range(call), chance.randint(0, min(call, 2))))) for call in range(calls))
    services = [chance.choice(SERVICES) for _ in range(calls)]
    takes_s = {name: chance.uniform(0.1, 2.0) for name in SERVICES}
    avail = [[avail_s(place, name, 1.5, MOST_BATCH) for place in places] for name in services]
    comp = [[takes_s[name]] * len(places) for name in services]
    far = np.ones((len(places), len(places))) - np.eye(len(places))
    comm = np.array([far * chance.uniform(0.0, 1.5) for _ in range(calls)])
    return CallRequest(inputs, np.array(avail), np.array(comp), comm)
