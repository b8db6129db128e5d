"""The built-in collectors and executors: one row for each type."""

from collections.abc import Sequence

from orchestrator.settings import Settings
from orchestrator.tasks.builtin import captions, report, sources
from orchestrator.tasks.listing import Lister
from orchestrator.tasks.types import COLLECTOR, EXECUTOR, Collector, Executor, Registered
from ytcaption.v1 import task_pb2


def built_in(lister: Lister, settings: Settings, *more: Registered) -> Sequence[Registered]:
    """Every built-in type; `more` are those of rooms that this one may not import."""

    def row(
        name: str,
        description: task_pb2.TypeDescription,
        collector: Collector | None = None,
        executor: Executor | None = None,
    ) -> Registered:
        return Registered(
            type=name,
            role=COLLECTOR if collector else EXECUTOR,
            transport=task_pb2.TASK_TRANSPORT_BUILT_IN,
            max_in_flight=settings.task_max_in_flight,
            timeout_seconds=settings.task_seconds,
            description=description,
            collector=collector,
            executor=executor,
        )

    listing = sources.Sources(lister)
    return [
        row("youtube", sources.DESCRIPTIONS["youtube"], collector=listing),
        row("url", sources.DESCRIPTIONS["url"], collector=listing),
        row("legendas", captions.DESCRIPTION, executor=captions.CaptionFiles()),
        row("relatorio", report.DESCRIPTION, executor=report.CollectionReport(settings.work_dir)),
        *more,
    ]
