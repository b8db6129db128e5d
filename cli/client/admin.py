"""Calls of AdminService: health, stats, webhook deliveries, cleanup, factory reset."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import click
from google.protobuf.duration import from_timedelta
from google.protobuf.message import Message

from cli.channel import Server, call
from cli.client.lists import ListSpec, print_list
from cli.exits import Exit
from cli.render.messages import as_dict
from cli.render.text import for_terminal, size, to_json
from mesh.messages import enum_word
from ytcaption.v1 import admin_service_pb2 as pb
from ytcaption.v1 import job_pb2 as job_pb
from ytcaption.v1.audit_pb2 import AuditEntry

# Jobs are removed one by one, and there may be many.
REMOVAL_SECONDS = 3600


async def show_health(server: Server, *, as_json: bool) -> Exit:
    """Prints a line for each component; exits with 4 unless a job would run."""
    found = await call(server.admin.GetHealth, pb.GetHealthRequest())
    if as_json:
        click.echo(to_json({"healthy": found.healthy, **as_dict(found)}))
    else:
        for part in found.components:
            state = "ok" if part.healthy else "NOT OK"
            detail = for_terminal(f"{part.address}  {part.detail}")
            click.echo(f"{for_terminal(part.name):<13} {state:<7} {detail}")
        click.echo("a job would run" if found.healthy else "a job would not run now")
    return Exit.OK if found.healthy else Exit.UNAVAILABLE


async def show_stats(server: Server, *, as_json: bool) -> None:
    """Prints a line for each figure, and for every job state even without jobs in it."""
    found = await call(server.admin.GetStats, pb.GetStatsRequest())
    jobs = {enum_word(job_pb.JobState, state): 0 for state in job_pb.JobState.values()[1:]}
    jobs |= {enum_word(job_pb.JobState, one.state): one.count for one in found.jobs}
    uptime = found.uptime.ToTimedelta()
    if as_json:
        figures = {
            "version": found.version,
            "jobs": jobs,
            "queue_depth": found.queue_depth,
            "dead_letters": found.dead_letters,
            "stored_bytes": found.stored_bytes,
            "uptime_seconds": uptime.total_seconds(),
        }
        click.echo(to_json(figures))
        return
    facts = {
        **{name: str(count) for name, count in jobs.items()},
        "in the queue": str(found.queue_depth),
        "dead letters": str(found.dead_letters),
        "stored": size(found.stored_bytes),
        "up for": str(timedelta(seconds=int(uptime.total_seconds()))),
        "version": found.version,
    }
    for label, value in facts.items():
        _print_aligned(label, value)


def _print_aligned(label: str, value: str) -> None:
    click.echo(f"{for_terminal(label):<13} {for_terminal(value)}")


async def list_deliveries(
    server: Server, job_id: str, collection_id: str, limit: int, *, as_json: bool
) -> None:
    """Prints webhook deliveries as a table, or as one JSON object a line."""
    request = pb.ListWebhookDeliveriesRequest(job_id=job_id, collection_id=collection_id)
    method = server.admin.ListWebhookDeliveries
    await print_list(method, request, DELIVERIES, limit, as_json=as_json)


def _delivery_row(delivery: pb.WebhookDelivery) -> Sequence[str]:
    due = delivery.HasField("next_attempt_time")
    answers = [f"{one.status or ''} {one.error}".strip() for one in delivery.attempts]
    return (
        delivery.job_id or delivery.collection_id,
        delivery.type,
        enum_word(pb.DeliveryState, delivery.state),
        delivery.create_time.ToDatetime(UTC).strftime("%Y-%m-%d %H:%M:%S"),
        str(len(answers)),
        answers[-1] if answers else "",
        delivery.next_attempt_time.ToDatetime(UTC).strftime("%H:%M:%S") if due else "",
        delivery.url,
    )


DELIVERIES: ListSpec[pb.WebhookDelivery] = ListSpec(
    id_field="event_id",
    heads=("of", "event", "state", "happened", "tries", "last answer", "next try", "to"),
    row=_delivery_row,
    items=lambda page: page.deliveries,
)


async def list_audit(
    server: Server, subject: str, age: timedelta | None, limit: int, *, as_json: bool
) -> None:
    """Prints entries of the audit as a table, or as one JSON object a line."""
    request = pb.ListAuditRequest(subject=subject)
    if age is not None:
        request.start_time.FromDatetime(datetime.now(UTC) - age)
    await print_list(server.admin.ListAudit, request, AUDIT, limit, as_json=as_json)


def _audit_row(entry: AuditEntry) -> Sequence[str]:
    return (
        entry.time.ToDatetime(UTC).strftime("%Y-%m-%d %H:%M:%S"),
        entry.subject,
        entry.client or entry.peer,
        entry.method.partition("/")[2],
        " ".join(entry.object_ids),
        entry.reason or "done",
    )


AUDIT: ListSpec[AuditEntry] = ListSpec(
    id_field="sequence",
    heads=("when", "who", "from", "what", "on", "outcome"),
    row=_audit_row,
    items=lambda page: page.entries,
)


async def clean_up(
    server: Server, max_age: timedelta, *, logs: bool, dry_run: bool, as_json: bool
) -> None:
    """Prints what was removed, or would be."""
    request = pb.CleanupRequest(max_age=from_timedelta(max_age), dry_run=dry_run, logs=logs)
    done = await call(server.admin.Cleanup, request, REMOVAL_SECONDS)
    if as_json:
        click.echo(to_json({"dry_run": dry_run, **_all_fields(done)}))
    else:
        cleaned = f"{done.log_files_removed} log files, " if done.logs_cleaned else ""
        click.echo(
            f"{_removed(dry_run)}: {done.jobs_removed} jobs, "
            f"{done.collections_removed} collections, {done.events_removed} events, "
            f"{done.artifacts_removed} files, {cleaned}{size(done.bytes_removed)}"
        )


async def reset(server: Server, confirmation: str, *, dry_run: bool, as_json: bool) -> Exit:
    """Prints a line for each service; exits with 4 if one could not be reset."""
    request = pb.FactoryResetRequest(confirmation=confirmation, dry_run=dry_run)
    done = await call(server.admin.FactoryReset, request, REMOVAL_SECONDS)
    if as_json:
        services = [_all_fields(service) for service in done.services]
        click.echo(to_json({"dry_run": dry_run, "services": services}))
    else:
        for service in done.services:
            _print_aligned(service.name, _outcome(service, dry_run=dry_run))
    return Exit.OK if all(service.done for service in done.services) else Exit.UNAVAILABLE


def _all_fields(message: Message) -> dict[str, Any]:
    """Zeros too, which `as_dict` leaves out."""
    return {field.name: getattr(message, field.name) for field in message.DESCRIPTOR.fields}


def _outcome(service: pb.ServiceReset, *, dry_run: bool) -> str:
    counts = (
        f"{_removed(dry_run)}: {service.jobs_removed} jobs, "
        f"{service.collections_removed} collections, {service.tasks_purged} tasks, "
        f"{service.files_removed} files, {size(service.bytes_removed)}"
    )
    return counts if service.done else f"NOT DONE  {service.error}; {counts}"


def _removed(dry_run: bool) -> str:
    return "would remove" if dry_run else "removed"
