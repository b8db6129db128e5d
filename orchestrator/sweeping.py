"""Removes what ended long ago."""

import asyncio
from datetime import UTC, datetime, timedelta

from mesh.errors import InvalidRequestError
from mesh.reasons import Reason
from orchestrator.removal import Removal, Swept

DEFAULT_AGE = timedelta(hours=24)
AT_ONCE = 8


class Sweeper:
    """Every replica has one; they may all sweep at once, for what is gone is gone."""

    def __init__(self, removal: Removal) -> None:
        self._removal = removal

    async def cleanup(self, max_age: timedelta | None = None, *, dry_run: bool = False) -> Swept:
        """Removes jobs that ended, and collections settled, longer ago; with every trace."""
        age = DEFAULT_AGE if max_age is None else max_age
        if age < timedelta():
            raise InvalidRequestError("max_age must not be negative", reason=Reason.REQUEST_INVALID)
        try:
            before = datetime.now(UTC) - age
        except OverflowError:  # older than the calendar
            return Swept()
        old = iter(await self._removal.candidates(before))

        async def one_after_another() -> Swept:
            swept = Swept()
            for ended in old:
                swept += await self._removal.remove(ended, before, dry_run=dry_run)
            return swept

        sweeping = [one_after_another() for _ in range(AT_ONCE)]
        total = Swept()
        for result in await asyncio.gather(*sweeping, return_exceptions=True):
            if isinstance(result, BaseException):
                raise result
            total += result
        return total
