"""The queues of tasks: one for each type, with at most one item for each task."""

from nats.js.errors import NotFoundError

from mesh.bus import Bus, storing
from orchestrator.queue.work_queue import ItemQueue, put_once
from orchestrator.tasks.types import RoleId, role_word
from ytcaption.v1 import task_pb2


def durable_of(role: RoleId, type_: str) -> str:
    """The consumer of a type's queue."""
    return f"{role_word(role)}-{type_}"


class TaskQueue(ItemQueue):
    """One item for each task that has not ended."""

    def __init__(self, bus: Bus) -> None:
        names = bus.names
        super().__init__(bus, names.tasks_stream, lambda task_id: names.task("*", "*", task_id))

    async def put(self, task: task_pb2.Subtask) -> bool:
        """Stores the task's item durably; False if it has one already."""
        subject = self._bus.names.task(role_word(task.role), task.type, task.task_id)
        return await put_once(self._bus, subject, b"")

    async def waiting(self, role: RoleId, type_: str) -> tuple[int, int]:
        """Items of a type that wait, and those that are worked on, or wait for another attempt."""
        try:
            async with storing():
                info = await self._bus.jetstream.consumer_info(
                    self._bus.names.tasks_stream, durable_of(role, type_)
                )
        except NotFoundError:
            return 0, 0
        return info.num_pending or 0, info.num_ack_pending or 0
