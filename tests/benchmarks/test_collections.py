"""The benchmark of collections in small: that it counts, not how fast anything is."""

import json
import subprocess
import sys
from pathlib import Path

from benchmarks.collections_watch import Received
from ytcaption.v1 import collection_pb2
from ytcaption.v1 import collection_service_pb2 as pb

MEMBERS = 12
WATCHERS = 3


def test_watchers_of_a_collection_are_sent_what_changes_and_no_more(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks.collections", "--results", str(tmp_path)]
    command += ["--members", str(MEMBERS), "--watchers", str(WATCHERS)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=280)

    (path,) = tmp_path.glob("collections-*.json")
    result = json.loads(path.read_text())
    figures = {figure["name"]: figure["value"] for figure in result["figures"]}
    assert ran.returncode == 0, ran.stderr
    for watchers in (1, WATCHERS):
        whose = f"{watchers} watching"
        changes = figures[f"{whose}: stored changes"]
        messages = figures[f"{whose}: messages to one, at most"]
        live = figures[f"{whose}: of one, live figures"]
        # Found, begun, ended: each member changes at least so often.
        assert changes >= 3 * MEMBERS
        assert messages - live <= changes + 1, "the collection as it stands, then each change once"
        assert figures[f"{whose}: messages to one who comes late"] <= MEMBERS + 3
        assert figures[f"{whose}: watchers that missed or doubled an end"] == 0
        assert figures[f"{whose}: saves of the record"] >= 2
        assert figures[f"{whose}: memory after"] > 0
    for name in figures:
        assert name in ran.stdout


def _ended(number: int) -> bytes:
    member = collection_pb2.Member(number=number, state=collection_pb2.MEMBER_STATE_COMPLETED)
    return pb.WatchCollectionResponse(sequence=number, member=member).SerializeToString()


def test_an_end_that_is_missed_or_doubled_is_noticed() -> None:
    whole, short, double = Received(), Received(), Received()
    for received, numbers in ((whole, [1, 2]), (short, [2]), (double, [1, 2, 2])):
        for number in numbers:
            received.note(_ended(number))

    assert [one.is_right(2) for one in (whole, short, double)] == [True, False, False]
    assert whole.bytes_ == len(_ended(1) + _ended(2))
