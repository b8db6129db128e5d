"""Types that were registered at the start and never change."""

import asyncio
from collections.abc import Sequence

from mesh.errors import InvalidRequestError
from mesh.reasons import Reason
from orchestrator.tasks.types import Registered, RoleId, role_word


class FixedTypes:
    """The registered types where none can be registered at run time."""

    def __init__(self, registered: Sequence[Registered] = ()) -> None:
        self._registered = sorted(registered, key=lambda one: one.type)

    def find(self, role: RoleId, name: str) -> Registered:
        """The type of that name; InvalidRequestError (TYPE_UNKNOWN) that names the known ones."""
        for one in self.known(role):
            if one.type == name:
                return one
        known = ", ".join(one.type for one in self.known(role)) or "none"
        raise InvalidRequestError(
            f"there is no {role_word(role)} {name[:100]!r}; known: {known}",
            reason=Reason.TYPE_UNKNOWN,
        )

    def known(self, role: RoleId) -> Sequence[Registered]:
        """Every type of that role, by name."""
        return [one for one in self._registered if one.role == role]

    async def changed(self) -> None:
        """Never returns."""
        await asyncio.Event().wait()
