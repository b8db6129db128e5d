"""A collection on a screen: readable with a thousand members."""

import asyncio
import fcntl
import io
import re
import struct
import sys
import termios

from rich.console import Console

from cli.bars import LINE_SECONDS
from cli.grid import PlainBoard, picture_of
from cli.roster import Roster
from tests.cli.command import environment
from tests.cli.scripted import ScriptedPipeline, serving
from tests.cli.scripted_collections import (
    COMPLETED,
    PENDING,
    RUNNING,
    TIMED_OUT,
    ScriptedCollections,
    Update,
    collection,
    going_on,
    live,
    member,
    told,
)
from tests.cli.terminal import Terminal
from ytcaption.v1 import collection_pb2 as pb

LONG = "a title that is much too long for any line [bold]\x1b[31m " * 5
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def _roster(story: list[Update]) -> Roster:
    roster = Roster()
    for update in story:
        roster.take(update)
    return roster


def _drawn(roster: Roster, width: int = 80, height: int = 24) -> list[str]:
    console = Console(file=io.StringIO(), width=width, height=height, force_terminal=True)
    with console.capture() as captured:
        console.print(picture_of(roster))
    return ESCAPES.sub("", captured.get()).splitlines()


def _thousand(running: int) -> list[Update]:
    return told(
        going_on(1000),
        *(member(n, PENDING, title=LONG) for n in range(1, 1001)),
        *(member(n, COMPLETED) for n in range(1, 301)),
        *(member(n, RUNNING, title=LONG) for n in range(301, 301 + running)),
        *(live(n, 0.42) for n in range(301, 301 + running)),
    )


def test_a_thousand_members_fit_a_small_screen() -> None:
    lines = _drawn(_roster(_thousand(running=60)))

    assert len(lines) < 24
    assert max(map(len, lines)) <= 80
    assert "300 completed, 60 running, 640 pending" in lines[1]
    assert "300 of 1000" in lines[2]
    assert re.match(r" 301 .* 42% a title", lines[3])
    assert lines[-1].strip() == "and 42 more under way"


def test_the_headline_names_the_collection_and_counts_down() -> None:
    lines = _drawn(_roster(_thousand(running=1)))

    assert re.match(r"October · running · (9:5\d|10:00) left", lines[0])
    assert len(lines) == 4


def test_listing_is_shown_until_it_is_over() -> None:
    begun = going_on(0, listings=[pb.Listing(complete=True), pb.Listing()])
    begun.sources.append("https://example.net/other")
    begun.discovery_complete = False

    assert (
        "0 of 1 so far, listing, 1 of 2 sources done"
        in _drawn(_roster(told(begun, member(1, PENDING))))[2]
    )
    assert "listing" not in "".join(_drawn(_roster(told(begun, member(1, PENDING), going_on(1)))))


def test_a_member_that_timed_out_but_is_still_heard_keeps_its_bar() -> None:
    roster = _roster(
        told(member(1, RUNNING), live(1, 0.3), member(1, TIMED_OUT), live(1, 0.6), live(7, 0.1))
    )

    assert roster.under_way == {1: 0.6}
    assert roster.counts == {"timed out": 1}


def test_a_new_attempt_begins_its_bar_anew() -> None:
    roster = _roster(
        told(member(1, RUNNING, attempt=1), live(1, 0.8), member(1, RUNNING, attempt=2))
    )

    assert roster.under_way == {1: None}
    assert "Talk 1 (attempt 2)" in _drawn(roster)[3]


def test_counts_follow_every_change_of_state_once() -> None:
    roster = _roster(
        told(member(1, PENDING), member(1, RUNNING), member(1, RUNNING), member(1, COMPLETED))
    )

    assert roster.counts == {"completed": 1}
    assert not roster.gathered


def test_plain_lines_come_now_and_then_if_counts_changed() -> None:
    now, lines = [0.0], list[str]()
    plain = PlainBoard(lines.append, lambda: now[0])
    roster = Roster()

    for update in told(*(member(n, COMPLETED) for n in range(1, 26))):
        roster.take(update)
        now[0] += 1
        plain.show(roster)
    for _ in range(30):
        now[0] += 1
        plain.show(roster)

    step = int(LINE_SECONDS)
    assert lines == [f"{count} completed" for count in (step, 2 * step, 25)]


async def test_on_a_terminal_members_that_ended_scroll_above_the_bars() -> None:
    """A screen of 80 columns and 24 lines, 1,000 members and a pipe on stdout."""
    ends = collection(pb.COLLECTION_STATE_COMPLETE, 1000)
    story = [*_thousand(running=60), *told(*(member(n, COMPLETED) for n in range(1, 1001)), ends)]
    for sequence, update in enumerate((one for one in story if one.sequence), 1):
        update.sequence = sequence
    terminal = Terminal()
    fcntl.ioctl(terminal.far, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))

    async with serving(ScriptedPipeline(), collections=ScriptedCollections(story)) as address:
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
