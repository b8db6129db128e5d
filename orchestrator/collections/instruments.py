"""What conductors work with."""

from dataclasses import dataclass

from mesh.bus import Bus
from orchestrator.collections.discovery import Lister
from orchestrator.collections.records import CollectionRecords
from orchestrator.collections.shelf import CollectionShelf
from orchestrator.control import Control
from orchestrator.index import JobIndex
from orchestrator.room import Room
from orchestrator.submission import Submission


@dataclass(frozen=True, slots=True)
class Instruments:
    """Everything a conductor needs; the same for all."""

    bus: Bus
    records: CollectionRecords
    shelf: CollectionShelf
    index: JobIndex
    submission: Submission
    control: Control
    room: Room
    lister: Lister
