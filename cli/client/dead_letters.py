"""dlq: lists, shows, replays and purges dead letters."""

from collections.abc import Sequence
from contextlib import aclosing, closing
from datetime import UTC, datetime, timedelta

import click
import grpc
from google.protobuf.timestamp_pb2 import Timestamp

from cli.channel import Server, call
from cli.client.lists import EVERYTHING, ListSpec, pages, print_list
from cli.exits import CommandError, Exit
from cli.render.job_updates import JobRenderer, job_exit
from cli.render.messages import failure_line, job_source, job_state, message_json
from cli.render.screen import Screen, minute, print_facts
from cli.render.text import for_terminal, to_json
from mesh.messages import enum_word
from mesh.reasons import Reason
from mesh.status import reason_of
from mesh.watching import follow
from ytcaption.v1 import admin_service_pb2 as pb
from ytcaption.v1 import job_pb2 as job_pb
from ytcaption.v1 import pipeline_service_pb2 as pipeline_pb


async def list_letters(server: Server, reason: str, limit: int, *, as_json: bool) -> None:
    """Prints a table, or one JSON object a line."""
    request = pb.ListDeadLettersRequest(reason=reason)
    await print_list(server.admin.ListDeadLetters, request, LETTERS, limit, as_json=as_json)


def _row(letter: job_pb.DeadLetter) -> Sequence[str]:
    return (
        _id_of(letter),
        _kind_of(letter),
        minute(letter.dead_time),
        str(letter.attempts),
        letter.failure.reason,
        letter.failure.message,
    )


LETTERS: ListSpec[job_pb.DeadLetter] = ListSpec(
    id_field="letter_id",
    heads=("letter", "kind", "died", "attempts", "reason", "message"),
    row=_row,
    items=lambda page: page.dead_letters,
)


def _id_of(letter: job_pb.DeadLetter) -> str:
    return letter.letter_id or letter.job_id  # an older server has only letters of jobs


def _kind_of(letter: job_pb.DeadLetter) -> str:
    return enum_word(job_pb.LetterKind, letter.kind or job_pb.LETTER_KIND_JOB)


async def show_letter(server: Server, letter_id: str, *, as_json: bool) -> None:
    """Prints the facts of one letter, with the source and title of its job if it has one."""
    try:
        request = pipeline_pb.GetJobRequest(job_id=letter_id)
        job = (await call(server.pipeline.GetJob, request)).job
    except grpc.aio.AioRpcError as error:
        if reason_of(error) != Reason.JOB_NOT_FOUND:
            raise
        job, letter = job_pb.Job(), await _find(server, letter_id, reason="")
        missing = for_terminal(letter_id)
    else:
        failed = job.state == job_pb.JOB_STATE_FAILED
        letter = await _find(server, job.job_id, job.failure.reason) if failed else None
        missing = f"job {for_terminal(job.job_id)}: it is {job_state(job)}"
    if letter is None:
        message = f"no dead letter of {missing}"
        raise CommandError(message, Exit.REFUSED, Reason.DEAD_LETTER_NOT_FOUND)
    if as_json:
        click.echo(message_json(letter))
    else:
        print_facts(_facts(letter, job))


async def _find(server: Server, letter_id: str, reason: str) -> job_pb.DeadLetter | None:
    """Searches the list from the newest on: there is no call for a single letter."""
    request = pb.ListDeadLettersRequest(reason=reason)
    method = server.admin.ListDeadLetters
    async with aclosing(pages(method, request, LETTERS.items, EVERYTHING)) as read:
        async for page in read:
            for letter in LETTERS.items(page):
                if _id_of(letter) == letter_id:
                    return letter
    return None


def _facts(letter: job_pb.DeadLetter, job: job_pb.Job) -> list[tuple[str, str]]:
    stage = letter.failure.stage
    return [
        ("letter", _id_of(letter)),
        ("kind", _kind_of(letter)),
        ("job", letter.job_id),
        ("collection", letter.collection_id),
        ("source", job_source(job)),
        ("title", job.media.title),
        ("failure", failure_line(letter.failure)),
        ("stage", enum_word(job_pb.Stage, stage) if stage else ""),
        ("retryable", "yes" if letter.failure.retryable else "no"),
        ("attempts", str(letter.attempts)),
        ("accepted", _second(letter.work_item.enqueue_time)),
        ("first attempt", _second(letter.first_attempt_time)),
        ("died", _second(letter.dead_time)),
        ("captions", str(job.segment_count or "")),
        ("sequence", str(letter.sequence)),
        ("correlation", letter.correlation_id),
        ("subject", letter.subject),
        ("content", letter.content.decode(errors="replace") if letter.subject else ""),
    ]


def _second(time: Timestamp) -> str:
    return time.ToDatetime().strftime("%Y-%m-%d %H:%M:%S UTC") if time.seconds else ""


async def replay_letter(server: Server, letter_id: str, *, wait: bool, as_json: bool) -> Exit:
    """Prints the job as soon as it is queued again, or with `wait` as it ends this time."""
    request = pb.ReplayDeadLetterRequest(job_id=letter_id)
    done = await call(server.admin.ReplayDeadLetter, request)
    if not done.HasField("job"):  # an event or a webhook: there is nothing to wait for
        sent = {"letter_id": letter_id, "sent": True}
        click.echo(to_json(sent) if as_json else f"{letter_id} sent again")
        return Exit.OK
    job = await _follow_replay(server, done.job) if wait else done.job
    click.echo(message_json(job) if as_json else f"{job.job_id} {job_state(job)}")
    return job_exit(job) if wait else Exit.OK


async def _follow_replay(server: Server, replayed: job_pb.Job) -> job_pb.Job:
    """Follows the replayed job to its end; skips the events from before the replay."""
    with Screen() as screen, closing(JobRenderer(screen, captions=False)) as renderer:
        replaying = False
        updates = follow(server.pipeline, replayed.job_id, on_cut=renderer.connection.lost)
        async with aclosing(updates):
            async for update in updates:
                event = update.event
                if event.HasField("job_accepted"):
                    replaying = event.job_accepted.job.max_attempts == replayed.max_attempts
                if replaying or not update.HasField("event"):
                    renderer.render(update)
        return renderer.job


async def purge_letters(  # noqa: PLR0913 # one for each option
    server: Server,
    job_id: str,
    reason: str,
    older_than: timedelta | None,
    *,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Prints how many letters were removed, or would be."""
    request = pb.PurgeDeadLettersRequest(job_id=job_id, reason=reason, dry_run=dry_run)
    if older_than is not None:
        request.before.FromDatetime(datetime.now(UTC) - older_than)
    count = (await call(server.admin.PurgeDeadLetters, request)).dead_letters_removed
    if as_json:
        click.echo(to_json({"dead_letters_removed": count, "dry_run": dry_run}))
    else:
        letters = "dead letter" if count == 1 else "dead letters"
        click.echo(f"{count} {letters} {'would be removed' if dry_run else 'removed'}")
