"""The node's end of the key exchange: spend the bootstrap token, and be known by a key of one's own afterwards."""

import asyncio

from agents.channels.address import Address
from agents.channels.dialer import Dialer
from agents.channels.errors import ChannelError, PeerLostError, RefusedError
from agents.channels.keys import KeyPair
from agents.channels.settings import ChannelSettings
from agents.messages.to_newcomer import Registered, ToNewcomer
from agents.messages.to_registry import NOT_REGISTERED, Register


async def register(
    registry: Address, token: str, keys: KeyPair, timeout_s: float, settings: ChannelSettings | None = None
) -> str:
    """The name that this node goes by from now on, with the public half of `keys`.

    It is tried again while the registry is away or its database is; to register twice does no harm. Raises RefusedError
    when the token or the key is not accepted, and PeerLostError when there is no answer within `timeout_s`.
    """
    newcomer = _Newcomer(token)
    dialer: Dialer[ToNewcomer] = Dialer(registry, keys, "newcomer", ToNewcomer, newcomer, settings)
    newcomer.dialer = dialer
    try:
        async with asyncio.timeout(timeout_s):
            await dialer.wait_up(timeout_s)
            return await newcomer.node
    except TimeoutError:
        raise PeerLostError(f"{registry.endpoint} {NOT_REGISTERED} within {timeout_s:g} s") from None
    finally:
        dialer.close()


class _Newcomer:
    def __init__(self, token: str) -> None:
        self.dialer: Dialer[ToNewcomer] | None = None
        self.node: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._token = token

    def up(self) -> None:
        if self.dialer is not None and not self.node.done():
            try:
                self.dialer.send(Register(self._token))
            except ChannelError:
                return  # it is down again: `up` follows when it is back

    def received(self, message: ToNewcomer) -> None:
        if self.node.done():
            return
        if isinstance(message, Registered):
            self.node.set_result(message.node)
        else:
            self.node.set_exception(RefusedError(f"the registry refuses us: {message.reason}"))

    def down(self, reason: str) -> None:
        """Do nothing: what was asked may have been lost, and `up` asks again."""
