"""Objects that routes depend on, built once when the gateway starts."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from gateway.client import Orchestrator
from gateway.settings import Settings
from gateway.sse.feed import JobFeeds
from gateway.sse.jobs import FinalEvents
from gateway.sse.stream import OpenStreams


@dataclass(frozen=True, slots=True)
class Dependencies:
    """The state of a running gateway."""

    settings: Settings
    orchestrator: Orchestrator
    job_feeds: JobFeeds
    final_events: FinalEvents
    streams: OpenStreams


def _dependencies(request: Request) -> Dependencies:
    deps: Dependencies = request.app.state.deps
    return deps


Deps = Annotated[Dependencies, Depends(_dependencies)]
"""The type of a route's parameter that receives the dependencies."""
