"""What a scheduler's core answers to gateways."""

from collections.abc import Hashable
from dataclasses import dataclass

from agents.messages.to_gateway import Failed, Finished, Tokens


@dataclass(frozen=True, slots=True)
class GatewayMessage:
    """A message for the gateway `to`."""

    to: Hashable
    message: Tokens | Finished | Failed
