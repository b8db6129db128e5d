"""Shares of the sending slots: no receiver, network or owner delays the webhooks of others."""

from dataclasses import dataclass
from enum import IntEnum
from ipaddress import ip_address, ip_network
from time import monotonic

from mesh.public_addresses import is_public

UNKNOWN_SECONDS = 1.0
SHORTEST_SECONDS, LONGEST_SECONDS = 0.1, 600.0
V4_NETWORK, V6_NETWORK = 24, 48
"""Prefixes: the smallest IPv4 block that is routed by itself, and one site's IPv6 block."""


class Kind(IntEnum):
    """What has a share; the value divides the slots: a host gets at most one in four."""

    HOST = 4
    NETWORK = 2
    OWNER = 3


Key = tuple[Kind, str]


def network_of(address: str) -> str:
    """The network of a public address; "" for others, which only an operator can allow."""
    if not is_public(address):
        return ""
    prefix = V6_NETWORK if ip_address(address).version == 6 else V4_NETWORK
    return str(ip_network(f"{address}/{prefix}", strict=False))


@dataclass(slots=True)
class _Use:
    busy: int = 0
    pace: float = UNKNOWN_SECONDS
    next_turn: float = 0.0


class Shares:
    """Hosts, networks and owners with requests in flight; one without any is forgotten."""

    def __init__(self, at_once: int) -> None:
        self._at_once = at_once
        self._uses: dict[Key, _Use] = {}

    def turn(self) -> "Turn":
        """A request that has no slot yet."""
        return Turn(self)

    def enter(self, key: Key) -> float:
        """Takes a slot and returns 0; else returns the seconds to wait.

        Waiting items get different times, spread by how long a request takes.
        """
        share = max(1, self._at_once // key[0])
        use = self._uses.setdefault(key, _Use())
        if use.busy < share:
            use.busy += 1
            return 0.0
        now = monotonic()
        use.next_turn = max(now, use.next_turn) + use.pace / share
        return min(max(use.next_turn - now, SHORTEST_SECONDS), LONGEST_SECONDS)

    def leave(self, key: Key, took_seconds: float) -> None:
        """Frees the slot; `took_seconds` is 0 if nothing was sent."""
        use = self._uses[key]
        use.busy -= 1
        use.pace = took_seconds or use.pace
        if not use.busy:
            del self._uses[key]


class Turn:
    """The slots that one request holds; left together."""

    def __init__(self, shares: Shares) -> None:
        self._shares = shares
        self._held: list[Key] = []

    def enter(self, kind: Kind, name: str) -> float:
        """Takes a slot of this name and returns 0; else the seconds to wait. "" has no share."""
        if not name:
            return 0.0
        wait = self._shares.enter((kind, name))
        if not wait:
            self._held.append((kind, name))
        return wait

    def leave(self, took_seconds: float) -> None:
        """Frees every slot."""
        while self._held:
            self._shares.leave(self._held.pop(), took_seconds)
