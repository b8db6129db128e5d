"""What every route may need, made once when the gateway starts."""

import asyncio
from dataclasses import dataclass, field
from typing import Annotated

from fastapi import Depends, Request

from gateway.backend import Orchestrator
from gateway.heard import Texts
from gateway.settings import Settings


@dataclass(slots=True)
class Face:
    """The running gateway."""

    settings: Settings
    orchestrator: Orchestrator
    texts: Texts
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    streams: int = 0
    """Event streams open now."""


def _face(request: Request) -> Face:
    face: Face = request.app.state.face
    return face


FaceOf = Annotated[Face, Depends(_face)]
"""The running gateway, for routes."""
