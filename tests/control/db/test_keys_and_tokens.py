"""The agents' key exchange and API tokens: who gets in, and that no secret is kept or shown."""

import logging
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from threading import Barrier

import pytest
from sqlalchemy import text

from control.access.pepper import PepperError
from control.access.role import Role
from control.access.secret import Secret, new_secret
from control.db.agent_keys import PostgresAgentKeys
from control.db.api_tokens import PostgresApiTokens
from control.db.database import Database
from control.db.errors import NotStoredError, RegistrationRefusedError
from control.db.intents import PostgresIntents
from control.db.nodes import PostgresNodes
from control.lifecycle.event import EventKind
from policies.priority import Priority
from tests.control.lifecycle.worlds import START, driven

HOUR = timedelta(hours=1)
KEY = "Yne@$w-vo<fVvi]a<NY6T1ed:M$fCG*[IaLV{hID"
OTHER_KEY = "rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7"


def rented(database: Database, places: int = 1) -> list[tuple[str, Secret]]:
    """Nodes on their way, each with its token."""
    instance = driven(database, EventKind.PROVISION)
    tokens = [new_secret() for _ in range(places)]
    intents = PostgresIntents(database)
    offer = "fake/a/small/on-demand"
    return [
        (intents.open_create(instance.id, place, offer, "fake", 1.0, token, START + HOUR, START), token)
        for place, token in enumerate(tokens)
    ]


def test_a_token_becomes_a_key_once(database: Database) -> None:
    keys, ((name, token),) = PostgresAgentKeys(database), rented(database)
    assert keys.living() == {}
    assert keys.register(token, KEY, START) == name
    assert keys.living() == {KEY: name}
    with pytest.raises(RegistrationRefusedError, match=f"{name} has registered already"):
        keys.register(token, OTHER_KEY, START)
    assert keys.living() == {KEY: name}


def test_a_reply_may_be_lost_even_past_the_tokens_life(database: Database) -> None:
    keys, ((name, token),) = PostgresAgentKeys(database), rented(database)
    for now in (START, START + 2 * HOUR):
        assert keys.register(token, KEY, now) == name


def test_unknown_expired_and_malformed_are_refused(database: Database) -> None:
    keys, ((name, token),) = PostgresAgentKeys(database), rented(database)
    with pytest.raises(RegistrationRefusedError, match="nobody was given"):
        keys.register(new_secret(), KEY, START)
    with pytest.raises(RegistrationRefusedError, match=f"{name} has expired"):
        keys.register(token, KEY, START + HOUR)
    for bad in ("", KEY[:-1], KEY + "0", "0" * 40, "~" + KEY[1:], "#" * 40):
        with pytest.raises(RegistrationRefusedError, match="no CURVE public key"):
            keys.register(token, bad, START)
    assert keys.living() == {}


def test_a_key_stands_for_one_node(database: Database) -> None:
    keys, ((first, token), (second, other)) = PostgresAgentKeys(database), rented(database, 2)
    keys.register(token, KEY, START)
    with pytest.raises(RegistrationRefusedError, match=f"{second} sent a key that another node has"):
        keys.register(other, KEY, START)
    assert keys.register(other, OTHER_KEY, START) == second
    assert keys.living() == {KEY: first, OTHER_KEY: second}


def test_the_key_of_a_node_that_is_gone_means_nothing(database: Database) -> None:
    keys, ((name, token), (late, other)) = PostgresAgentKeys(database), rented(database, 2)
    keys.register(token, KEY, START)
    PostgresNodes(database).lost(name, "preempted", START)
    assert keys.living() == {}
    PostgresNodes(database).lost(late, "preempted", START)
    with pytest.raises(RegistrationRefusedError, match=f"{late} is gone"):
        keys.register(other, OTHER_KEY, START)


def test_of_two_thieves_and_an_agent_exactly_one_gets_the_node(database: Database) -> None:
    keys, ((name, token),) = PostgresAgentKeys(database), rented(database)
    senders = [KEY, OTHER_KEY, KEY[::-1]]
    barrier = Barrier(len(senders))

    def register(key: str) -> bool:
        barrier.wait()
        try:
            keys.register(token, key, START)
        except RegistrationRefusedError:
            return False
        return True

    with ThreadPoolExecutor(len(senders)) as pool:
        won = list(pool.map(register, senders))
    assert won.count(True) == 1
    assert keys.living() == {senders[won.index(True)]: name}


def test_a_lost_call_may_have_carried_an_earlier_token(database: Database) -> None:
    instance, intents = driven(database, EventKind.PROVISION), PostgresIntents(database)
    tokens = [new_secret(), new_secret()]
    offer = "fake/a/small/on-demand"
    names = {intents.open_create(instance.id, 0, offer, "fake", 1.0, t, START + HOUR, START) for t in tokens}
    (name,) = names
    keys = PostgresAgentKeys(database)
    assert keys.register(tokens[0], KEY, START) == name
    with pytest.raises(RegistrationRefusedError, match="registered already"):
        keys.register(tokens[1], OTHER_KEY, START)


def test_an_api_token_works_until_it_expires_or_is_revoked(database: Database) -> None:
    tokens = PostgresApiTokens(database)
    token, secret = tokens.create("console", Role.OPERATOR, START, START + HOUR, priority=Priority.BATCH)
    assert token.priority is Priority.BATCH
    assert tokens.authenticate(secret, START) == token
    assert tokens.authenticate(secret, START + HOUR) is None
    tokens.revoke(token.id, START)
    tokens.revoke(token.id, START + HOUR)
    assert tokens.authenticate(secret, START) is None
    assert tokens.list() == (replace(token, revoked_at=START),)


def test_wrong_tokens_open_nothing(database: Database) -> None:
    tokens = PostgresApiTokens(database)
    _, mine = tokens.create("mine", Role.ADMIN, START)
    _, yours = tokens.create("yours", Role.VIEWER, START)
    mixed = f"{mine.reveal().rpartition('_')[0]}_{yours.reveal().rpartition('_')[2]}"
    unknown = f"medley_{'0' * 12}_{mine.reveal().rpartition('_')[2]}"
    for wrong in ("", "medley", mixed, unknown, mine.reveal()[:-1], mine.reveal() + "0", mine.reveal().upper()):
        assert tokens.authenticate(Secret(wrong), START) is None
    with pytest.raises(ValueError, match="needs a name"):
        tokens.create(" ", Role.VIEWER, START)
    with pytest.raises(ValueError, match="would never work"):
        tokens.create("late", Role.VIEWER, START, START)
    with pytest.raises(NotStoredError):
        tokens.revoke("0" * 12, START)


def test_a_token_is_known_by_its_pepper_as_long_as_that_is_there(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens, file = PostgresApiTokens(database), tmp_path / "peppers"
    first, second = "1" * 40, "2" * 40
    before, plain = tokens.create("before", Role.VIEWER, START)
    monkeypatch.setenv("MEDLEY_PEPPER_FILE", str(file))

    def peppers(*lines: str) -> None:
        new = tmp_path / "new"
        new.write_text("\n".join(lines))
        new.replace(file)

    with pytest.raises(PepperError):
        tokens.create("none", Role.VIEWER, START)
    peppers(first)
    one, secret = tokens.create("one", Role.VIEWER, START)
    assert tokens.authenticate(plain, START) == before
    assert tokens.authenticate(secret, START) == one
    ((_, kept),) = [each for each in tokens.clients(START) if each[0] == one]
    assert kept.digest != Secret(secret.reveal().rpartition("_")[2]).digest()
    peppers(second, first)  # a new one, while tokens of the old one are replaced
    other, others = tokens.create("other", Role.VIEWER, START)
    assert [tokens.authenticate(each, START) for each in (secret, others)] == [one, other]
    peppers(second)
    assert [tokens.authenticate(each, START) for each in (plain, secret, others)] == [before, None, other]
    for wrong in ("short", "", "\xe4" * 40):
        peppers(second, wrong) if wrong else peppers()
        with pytest.raises(PepperError) as refused:
            tokens.create("none", Role.VIEWER, START)
        assert second not in str(refused.value)
        assert [tokens.authenticate(each, START) for each in (plain, secret, others)] == [before, None, other]
    monkeypatch.setenv("MEDLEY_PEPPER_FILE", str(tmp_path / "never-read"))
    assert tokens.authenticate(plain, START) == before  # it has none
    with pytest.raises(PepperError):
        tokens.authenticate(others, START)


def test_roles_cover_those_below_them() -> None:
    assert [[role.covers(needed) for needed in Role] for role in Role] == [
        [True, False, False, False],
        [True, True, False, False],
        [True, True, True, False],
        [True, True, True, True],
    ]


def test_no_secret_is_in_a_row_a_log_or_a_message(database: Database, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    (_, bootstrap), (_, refused) = rented(database, 2)
    keys = PostgresAgentKeys(database)
    keys.register(bootstrap, KEY, START)
    with pytest.raises(RegistrationRefusedError) as caught:
        keys.register(refused, KEY, START)
    _, api = PostgresApiTokens(database).create("console", Role.VIEWER, START)
    with database.transaction() as connection:
        names = connection.execute(text("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")).scalars().all()
        rows = [str(connection.execute(text(f"SELECT t::text FROM {n} t")).all()) for n in names]  # noqa: S608
    assert len(rows) > 10
    for secret in (bootstrap, refused, Secret(api.reveal().rpartition("_")[2])):
        hidden = secret.reveal()
        assert hidden.encode().hex() not in "".join(rows)
        for shown in (*rows, caplog.text, str(caught.value), repr(secret), str(secret), f"{secret}", f"{(secret,)}"):
            assert hidden not in shown
