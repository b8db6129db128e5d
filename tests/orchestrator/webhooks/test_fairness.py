"""No host, network or owner has more than its share of the senders."""

import pytest

from mesh.bus import Bus
from orchestrator.webhooks import sender
from orchestrator.webhooks.fairness import Kind, Shares, network_of
from tests.orchestrator.conftest import Start
from tests.orchestrator.webhooks.deliveries import ON, publish_job_finished, queue_is_empty
from tests.orchestrator.webhooks.receiver import HANG, receiving
from tests.support.polling import until


def test_a_host_gets_a_quarter_of_the_slots_and_others_get_the_rest() -> None:
    shares = Shares(at_once=8)
    slow, quick = (Kind.HOST, "slow"), (Kind.HOST, "quick")

    assert [shares.enter(slow), shares.enter(slow), shares.enter(quick)] == [0, 0, 0]
    first, second = shares.enter(slow), shares.enter(slow)
    assert 0 < first < second
    shares.leave(slow, 15)
    assert shares.enter(slow) == 0
    assert shares.enter(slow) > 7  # by now its pace is known


@pytest.mark.parametrize(("kind", "most"), [(Kind.OWNER, 10), (Kind.NETWORK, 16)])
def test_many_hosts_of_one_owner_or_network_leave_slots_for_others(kind: Kind, most: int) -> None:
    shares = Shares(at_once=32)

    def admitted(name: str) -> int:
        turns = [shares.turn() for _ in range(32)]
        waits = [
            turn.enter(Kind.HOST, f"{number}.{name}") or turn.enter(kind, name)
            for number, turn in enumerate(turns)
        ]
        return waits.count(0)

    assert admitted("one") == most
    assert admitted("another") == most


def test_a_turn_that_is_left_frees_every_share() -> None:
    shares = Shares(at_once=1)
    turn = shares.turn()
    names = {Kind.HOST: "host", Kind.OWNER: "owner", Kind.NETWORK: "network"}
    assert [turn.enter(kind, name) for kind, name in names.items()] == [0, 0, 0]
    assert all(shares.turn().enter(kind, name) for kind, name in names.items())

    turn.leave(0)

    assert [shares.turn().enter(kind, name) for kind, name in names.items()] == [0, 0, 0]


def test_what_has_no_name_has_no_share() -> None:
    turn = Shares(at_once=1).turn()

    assert [turn.enter(Kind.OWNER, ""), turn.enter(Kind.OWNER, "")] == [0, 0]


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("93.184.215.14", "93.184.215.0/24"),
        ("2606:2800:21f:cb07::1", "2606:2800:21f::/48"),
        ("10.1.2.3", ""),
        ("127.0.0.1", ""),
        ("", ""),
    ],
)
def test_a_network_is_a_block_of_public_addresses(address: str, network: str) -> None:
    assert network_of(address) == network


@pytest.mark.parametrize("kind", [Kind.NETWORK, Kind.OWNER])
async def test_slow_receivers_of_one_network_or_owner_do_not_delay_another(
    start: Start, broker_bus: Bus, monkeypatch: pytest.MonkeyPatch, kind: Kind
) -> None:
    """Two receivers are of one network, or of one owner; the third is of another one."""

    def network(address: str) -> str:
        return "one" if address == "127.0.0.1" else "another"

    monkeypatch.setattr(sender, "network_of", network if kind is Kind.NETWORK else lambda _: "")
    async with (
        start(**ON, webhook_at_once=2),
        receiving() as first,
        receiving() as second,
        receiving(host="127.0.0.2") as quick,
    ):
        first.answer(HANG)
        second.answer(HANG)
        owners = ("", "") if kind is Kind.NETWORK else ("alice", "bob")
        for slow in (first, second):
            await publish_job_finished(broker_bus, slow.url, owner=owners[0])
        await until(lambda: first.under_way + second.under_way > 0)
        await publish_job_finished(broker_bus, quick.url, owner=owners[1])

        await quick.wait_for(1)

        assert len(first.received) + len(second.received) == 1
        first.release()
        second.release()
        await until(lambda: queue_is_empty(broker_bus))
