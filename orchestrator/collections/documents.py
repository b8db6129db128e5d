"""Documents with their texts, which are in the event logs of the tasks that found them."""

from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from copy import deepcopy
from dataclasses import dataclass

from orchestrator.collections.projection import Projection
from orchestrator.jobs.event_log import EventLogReader
from orchestrator.tasks.log import collected
from ytcaption.v1 import task_pb2


@dataclass(frozen=True, slots=True)
class Documents:
    """Reads the texts of a collection's documents."""

    event_logs: EventLogReader

    async def read(
        self, projection: Projection, numbers: Sequence[int]
    ) -> AsyncIterator[task_pb2.Document]:
        """The documents with these numbers, by subtask and then by number."""
        # The nth document of a subtask is the nth in the log of its task.
        places: defaultdict[int, dict[int, task_pb2.Document]] = defaultdict(dict)
        counts: Counter[int] = Counter()
        wanted = set(numbers)
        for document in projection.documents:
            place = counts[document.subtask]
            counts[document.subtask] += 1
            if document.number in wanted:
                places[document.subtask][place] = document
        for subtask, found in places.items():
            task_id = projection.subtasks[subtask - 1].task_id
            async for whole in self._read(task_id, found):
                yield whole

    async def _read(
        self, task_id: str, wanted: dict[int, task_pb2.Document]
    ) -> AsyncIterator[task_pb2.Document]:
        place, last = 0, max(wanted)
        async with aclosing(collected(self.event_logs, task_id)) as items:
            async for _, item in items:
                if not item.HasField("document"):
                    continue
                if place in wanted:
                    whole = deepcopy(wanted[place])
                    whole.text = item.document.text
                    yield whole
                place += 1
                if place > last:
                    return
