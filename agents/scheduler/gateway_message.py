"""What a scheduler's core has to say to gateways."""

from collections.abc import Hashable
from dataclasses import dataclass

from agents.messages.to_gateway import Failed, Finished, FinishReason, Tokens
from agents.scheduler.sequence import Sequence


@dataclass(frozen=True, slots=True)
class GatewayMessage:
    """A message for the gateway `to`."""

    to: Hashable
    message: Tokens | Finished | Failed


def finished(sequence: Sequence, reason: FinishReason, state: bytes = b"") -> GatewayMessage:
    """Return the end of a request, for whoever asked. `state`: of its prompt, where that was wanted."""
    owner, attempt = sequence.key
    end = Finished(attempt, reason, sequence.output_tokens, sequence.cached_prompt_tokens, state)
    return GatewayMessage(owner, end)
