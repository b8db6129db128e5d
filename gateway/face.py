"""What every route may need, made once when the gateway starts."""

from dataclasses import dataclass, field
from typing import Annotated

from fastapi import Depends, Request

from gateway.backend import Orchestrator
from gateway.endings import Endings
from gateway.settings import Settings
from gateway.streams import Telling


@dataclass(slots=True)
class Face:
    """The running gateway."""

    settings: Settings
    orchestrator: Orchestrator
    endings: Endings
    stories: set[Telling] = field(default_factory=set)
    """Event streams open now."""

    def stop(self) -> None:
        """Ends what would never end by itself."""
        for story in list(self.stories):
            story.stop()


def _face(request: Request) -> Face:
    face: Face = request.app.state.face
    return face


FaceOf = Annotated[Face, Depends(_face)]
"""The running gateway, for routes."""
