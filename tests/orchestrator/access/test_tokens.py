"""Tokens in storage, changed by several replicas at the same time."""

import asyncio

import pytest

from mesh.bus import Bus
from mesh.tokens import digest_of, id_of, new_token
from orchestrator.access.tokens import TokenStore
from ytcaption.v1 import token_pb2


async def stored(store: TokenStore) -> str:
    """The id of a new session."""
    secret = new_token()
    token = token_pb2.Token(
        token_id=id_of(secret), subject="ana", kind=token_pb2.TOKEN_KIND_SESSION
    )
    await store.add(token, digest_of(secret))
    return token.token_id


async def test_a_removal_that_meets_a_note_of_use_removes_all_the_same(
    broker_bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A logout that lost this race would leave the session open."""
    here, there = TokenStore(broker_bus), TokenStore(broker_bus)
    token_id = await stored(here)
    await there.catch_up()
    put_key, noted = broker_bus.put_key, False

    async def after_a_note(key: str, data: bytes, last: int, bucket: str) -> int | None:
        nonlocal noted
        if not data and not noted:
            noted = True
            await there.use(token_id)
        return await put_key(key, data, last, bucket)

    monkeypatch.setattr(broker_bus, "put_key", after_a_note)

    assert await here.remove(token_id)
    for store in (here, there, TokenStore(broker_bus)):
        await store.catch_up()
        assert store.find(token_id) is None
    assert not await there.remove(token_id)


async def test_of_two_removals_at_once_one_has_removed_it(broker_bus: Bus) -> None:
    here, there = TokenStore(broker_bus), TokenStore(broker_bus)
    token_id = await stored(here)

    removed = await asyncio.gather(*(one.remove(token_id) for one in (here, here, there)))

    assert sorted(removed) == [False, False, True]
