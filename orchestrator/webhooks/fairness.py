"""One slow receiver must not hold up the others: no host has more than its share of the places."""

from dataclasses import dataclass
from time import monotonic

SHARE = 4
UNKNOWN_SECONDS = 1.0
SHORTEST_SECONDS, LONGEST_SECONDS = 0.1, 600.0


@dataclass(slots=True)
class _Host:
    busy: int = 0
    pace: float = UNKNOWN_SECONDS
    next_turn: float = 0.0


class Hosts:
    """Who is being sent to; hosts are remembered only while they are."""

    def __init__(self, at_once: int) -> None:
        self._share = max(1, at_once // SHARE)
        self._hosts: dict[str, _Host] = {}

    def enter(self, name: str) -> float:
        """Takes a place for the host; else says in how many seconds to come again.

        Those who wait are told different moments, as far apart as the host's pace makes sensible.
        """
        host = self._hosts.setdefault(name, _Host())
        if host.busy < self._share:
            host.busy += 1
            return 0.0
        now = monotonic()
        host.next_turn = max(now, host.next_turn) + host.pace / self._share
        return min(max(host.next_turn - now, SHORTEST_SECONDS), LONGEST_SECONDS)

    def leave(self, name: str, took_seconds: float) -> None:
        """Gives the place back."""
        host = self._hosts[name]
        host.busy -= 1
        host.pace = took_seconds
        if not host.busy:
            del self._hosts[name]
