"""The progress view of a collection: readable with a thousand members."""

import asyncio
import fcntl
import io
import re
import struct
import sys
import termios

from rich.console import Console

from cli.render.bars import LINE_SECONDS
from cli.render.collection_state import CollectionProjection
from cli.render.collection_updates import PlainProgressView, snapshot_of
from tests.support.collection_updates import (
    COMPLETED,
    PENDING,
    RUNNING,
    TIMED_OUT,
    Update,
    collection,
    live,
    member,
    running_collection,
    updates_of,
)
from tests.support.command import environment
from tests.support.fake_orchestrator import FakeCollections, serving
from tests.support.terminal import Terminal
from ytcaption.v1 import collection_pb2 as pb

LONG = "a title that is much too long for any line [bold]\x1b[31m " * 5
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def _projection(event_log: list[Update]) -> CollectionProjection:
    state = CollectionProjection()
    for update in event_log:
        state.apply(update)
    return state


def _drawn(state: CollectionProjection, width: int = 80, height: int = 24) -> list[str]:
    console = Console(file=io.StringIO(), width=width, height=height, force_terminal=True)
    with console.capture() as captured:
        console.print(snapshot_of(state))
    return ESCAPES.sub("", captured.get()).splitlines()


def _thousand(running: int) -> list[Update]:
    return updates_of(
        running_collection(1000),
        *(member(n, PENDING, title=LONG) for n in range(1, 1001)),
        *(member(n, COMPLETED) for n in range(1, 301)),
        *(member(n, RUNNING, title=LONG) for n in range(301, 301 + running)),
        *(live(n, 0.42) for n in range(301, 301 + running)),
    )


def test_a_thousand_members_fit_a_small_screen() -> None:
    lines = _drawn(_projection(_thousand(running=60)))

    assert len(lines) < 24
    assert max(map(len, lines)) <= 80
    assert "300 completed, 60 running, 640 pending" in lines[1]
    assert "300 of 1000" in lines[2]
    assert re.match(r" 301 .* 42% a title", lines[3])
    assert lines[-1].strip() == "and 42 more under way"


def test_the_headline_names_the_collection_and_counts_down() -> None:
    lines = _drawn(_projection(_thousand(running=1)))

    assert re.match(r"October · running · (9:5\d|10:00) left", lines[0])
    assert len(lines) == 4


def test_listing_is_shown_until_it_is_complete() -> None:
    begun = running_collection(0, listings=[pb.Listing(complete=True), pb.Listing()])
    begun.sources.append("https://example.net/other")
    begun.discovery_complete = False

    assert (
        "0 of 1 so far, listing, 1 of 2 sources done"
        in _drawn(_projection(updates_of(begun, member(1, PENDING))))[2]
    )
    assert "listing" not in "".join(
        _drawn(_projection(updates_of(begun, member(1, PENDING), running_collection(1))))
    )


def test_a_timed_out_member_that_still_runs_keeps_its_bar() -> None:
    state = _projection(
        updates_of(
            member(1, RUNNING), live(1, 0.3), member(1, TIMED_OUT), live(1, 0.6), live(7, 0.1)
        )
    )

    assert state.under_way == {1: 0.6}
    assert state.counts == {"timed out": 1}


def test_a_new_attempt_resets_its_bar() -> None:
    state = _projection(
        updates_of(member(1, RUNNING, attempt=1), live(1, 0.8), member(1, RUNNING, attempt=2))
    )

    assert state.under_way == {1: None}
    assert "Talk 1 (attempt 2)" in _drawn(state)[3]


def test_counts_follow_each_state_change_once() -> None:
    state = _projection(
        updates_of(member(1, PENDING), member(1, RUNNING), member(1, RUNNING), member(1, COMPLETED))
    )

    assert state.counts == {"completed": 1}
    assert not state.gathered


def test_plain_lines_are_written_periodically_if_counts_changed() -> None:
    now, lines = [0.0], list[str]()
    plain = PlainProgressView(lines.append, lambda: now[0])
    state = CollectionProjection()

    for update in updates_of(*(member(n, COMPLETED) for n in range(1, 26))):
        state.apply(update)
        now[0] += 1
        plain.show(state)
    for _ in range(30):
        now[0] += 1
        plain.show(state)

    step = int(LINE_SECONDS)
    assert lines == [f"{count} completed" for count in (step, 2 * step, 25)]


async def test_on_a_terminal_ended_members_scroll_above_the_bars() -> None:
    """A screen of 80 columns and 24 lines, 1,000 members and a pipe on stdout."""
    ends = collection(pb.COLLECTION_STATE_COMPLETE, 1000)
    event_log = [
        *_thousand(running=60),
        *updates_of(*(member(n, COMPLETED) for n in range(1, 1001)), ends),
    ]
    for sequence, update in enumerate((one for one in event_log if one.sequence), 1):
        update.sequence = sequence
    terminal = Terminal()
    fcntl.ioctl(terminal.far, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))

    async with serving(collections=FakeCollections(event_log)) as address:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "cli", "collect", "https://example.net/list"),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=terminal.far,
            env=environment(YTCAPTION_SERVER=address, TERM="xterm"),
        )
        async with asyncio.timeout(60):
            printed, _ = await process.communicate()

    shown = ESCAPES.sub("", await terminal.everything())
    assert process.returncode == 0
    assert printed.decode().splitlines() == [f"{n:>4} completed Talk {n}" for n in range(1, 1001)]
    assert "1000 of 1000" in shown
    assert max(len(line) for line in re.split(r"[\r\n]+", shown)) <= 80
