"""Looking after something now and then, for as long as the orchestrator runs."""

import asyncio
from collections.abc import Awaitable, Callable

from nats.errors import Error as NatsError
from structlog import get_logger

from mesh.errors import MeshError

log = get_logger(__name__)


async def patrol(look: Callable[[], Awaitable[None]], every_seconds: float, what: str) -> None:
    """Looks until cancelled; a look that fails is made up for by the next."""
    while True:
        await asyncio.sleep(every_seconds)
        try:
            await look()
        except (MeshError, NatsError) as error:
            log.warning("cannot look now", what=what, error=str(error))
