"""The agents' key exchange: a node turns its one-time bootstrap token into a registered CURVE public key.

The control plane mints a token when it records that it will rent a node, stores the token's hash and puts the token
into the node's start. The agent makes a key pair, of which the secret half never leaves the node, and sends token and
public key over a connection that is encrypted to the control plane's own key. From then on the key is the node; the
token is spent. When the node is gone its key means nothing any more.
"""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import select
from sqlalchemy.dialects.postgresql import insert

from control.access.secret import Secret
from control.db.access_tables import agent_key, bootstrap_token
from control.db.database import Database
from control.db.errors import RegistrationRefusedError
from control.db.fleet_tables import node

_KEY_LETTERS = 40
_ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_DIGIT = {letter: value for value, letter in enumerate(_ALPHABET)}


@dataclass(frozen=True, slots=True)
class PostgresAgentKeys:
    """Every method also raises DatabaseUnavailableError. No message holds a token or a key."""

    database: Database

    def register(self, token: Secret, public_key: str, now: datetime) -> str:
        """The name of the node whose key this is from now on. The same again is the same: a reply may be lost.

        Raises RegistrationRefusedError for a text that is no CURVE public key (Z85), a token that is unknown, spent
        or expired, a node that is gone, and a key that another node has.
        """
        if not is_public_key(public_key):
            raise RegistrationRefusedError("an agent sent something that is no CURVE public key (40 letters of Z85)")
        digest = token.digest()
        with self.database.transaction() as connection:
            # To find a hash in an index takes a time that says something about the hash, from which no token follows.
            known = (
                select(node.c.name, node.c.gone_at, bootstrap_token.c.expires_at)
                .join_from(bootstrap_token, node)
                .where(bootstrap_token.c.digest == digest)
                .with_for_update(of=node, key_share=True)  # of two tokens of a node, one wins
            )
            found = connection.execute(known).one_or_none()
            if found is None:
                raise RegistrationRefusedError("an agent sent a bootstrap token that nobody was given")
            if found.gone_at is not None:
                raise RegistrationRefusedError(f"node {found.name} is gone, and its bootstrap token with it")
            row = connection.execute(select(agent_key).where(agent_key.c.node == found.name)).one_or_none()
            if row is not None:
                if (row.public_key, row.token_digest) == (public_key, digest):  # its reply was lost
                    return str(found.name)
                raise RegistrationRefusedError(f"node {found.name} has registered already: its token is spent")
            if found.expires_at <= now:
                raise RegistrationRefusedError(f"the bootstrap token of node {found.name} has expired")
            new = {"node": found.name, "public_key": public_key, "token_digest": digest, "registered_at": now}
            added = insert(agent_key).values(new).on_conflict_do_nothing().returning(agent_key.c.node)
            if connection.execute(added).scalar_one_or_none() is None:
                raise RegistrationRefusedError(f"node {found.name} sent a key that another node has")
            return str(found.name)

    def living(self) -> dict[str, str]:
        """Public key → node name, of all nodes that are not gone: whom the control plane talks to."""
        query = select(agent_key.c.public_key, node.c.name).join_from(agent_key, node).where(node.c.gone_at.is_(None))
        return {row.public_key: row.name for row in self.database.read(query)}


def is_public_key(text: str) -> bool:
    """Tell whether `text` encodes 32 bytes that are not all zero (which would be nobody's key)."""
    if len(text) != _KEY_LETTERS or any(letter not in _DIGIT for letter in text):
        return False
    words = [_five_letters(text[start : start + 5]) for start in range(0, _KEY_LETTERS, 5)]
    return all(word < 2**32 for word in words) and any(words)


def _five_letters(letters: str) -> int:
    value = 0
    for letter in letters:
        value = value * 85 + _DIGIT[letter]
    return value
