"""No host has more than its share of the senders."""

from orchestrator.webhooks.sender import Hosts


def test_a_host_gets_a_quarter_of_the_slots_and_others_get_the_rest() -> None:
    hosts = Hosts(at_once=8)

    assert [hosts.enter("slow"), hosts.enter("slow"), hosts.enter("quick")] == [0, 0, 0]
    first, second = hosts.enter("slow"), hosts.enter("slow")
    assert 0 < first < second
    hosts.leave("slow", 15)
    assert hosts.enter("slow") == 0
    assert hosts.enter("slow") > 7  # by now its pace is known
