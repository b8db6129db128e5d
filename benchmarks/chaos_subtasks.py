"""What became of a collection with collectors and executors, counted and judged."""

import csv
import hashlib
import io
import json
import re
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeAlias

from google.protobuf.json_format import MessageToDict

from benchmarks.chaos_gathered import COMPLETED, SeenCollection
from ytcaption.v1 import collection_pb2, task_pb2
from ytcaption.v1 import collection_service_pb2 as pb

SILENT = "escavador_mudo"
"""The type whose tasks are never answered."""
WORDS, REPORT = "palavras", "relatorio"
WORDS_FILE = "palavras.csv"
COLLECTOR, EXECUTOR = task_pb2.TASK_ROLE_COLLECTOR, task_pb2.TASK_ROLE_EXECUTOR
ITEM = task_pb2.EXECUTOR_SCOPE_ITEM
DONE, TIMED_OUT = task_pb2.SUBTASK_STATE_COMPLETED, task_pb2.SUBTASK_STATE_TIMED_OUT
STATUSES = {DONE: "concluida", TIMED_OUT: "timeout"}
MEMBER_STATUSES = {COMPLETED: "concluida"}
MOST_AGGREGATES = 2
"""When it was gathered, and after late results."""
Target: TypeAlias = tuple[int, int, int, int]
"""A role, the place of the specification, a member, a document."""


@dataclass(frozen=True, slots=True)
class TasksEvidence:
    """Everything that can be known of the collection when all is over."""

    asked: pb.CreateCollectionRequest
    recordings: Sequence[str]
    """Addresses that collectors are to find, each once."""
    posts: Mapping[str, str]
    """Texts they are to find, by address."""
    collection: collection_pb2.Collection
    members: Sequence[collection_pb2.Member]
    subtasks: Sequence[task_pb2.Subtask]
    documents: Sequence[task_pb2.Document]
    files: Mapping[tuple[int, str], bytes]
    """Of executors, by subtask and name."""
    report: Mapping[str, Any]
    published: Sequence[Mapping[str, Any]]
    """Every aggregate of it, as events that a listener received."""
    newest: Sequence[int]
    seen: SeenCollection
    second_results: int
    """Jobs of members whose event log has more than one result or end."""
    differing: int
    """Members that were heard otherwise than undisturbed."""


@dataclass(frozen=True, slots=True)
class Tasked:
    """What became of it."""

    subtasks: int
    documents: int
    recordings: int
    late: int
    """Subtasks of executors and members that ended after the deadline."""
    attempts: int
    """Of the subtask that took most."""
    cuts: int
    kills: int
    """That fell while it ran."""
    wrong_recordings: int
    wrong_documents: int
    wrong_subtasks: int
    wrong_states: int
    wrong_results: int
    wrong_aggregates: int
    repeated: int
    missed: int

    def figures(self) -> dict[str, int]:
        """All must be 0."""
        return {
            "collected recordings missing, twice or different": self.wrong_recordings,
            "documents missing, twice or different": self.wrong_documents,
            "subtasks missing or twice": self.wrong_subtasks,
            "subtasks in a wrong state": self.wrong_states,
            "results missing, twice or wrong": self.wrong_results,
            "aggregates that differ from the subtasks": self.wrong_aggregates,
            "changes of subtasks a watcher saw twice": self.repeated,
            "changes of subtasks a watcher missed": self.missed,
        }


def weigh_tasks(found: TasksEvidence, kills: int = 0) -> Tasked:
    """Compares what was asked for with what is stored, and that with every form of it."""
    sequences = found.seen.sequences
    return Tasked(
        subtasks=len(found.subtasks),
        documents=len(found.documents),
        recordings=len(found.members),
        late=sum(one.late for one in found.subtasks) + sum(one.late for one in found.members),
        attempts=max((one.attempt for one in found.subtasks), default=0),
        cuts=found.seen.cuts,
        kills=kills,
        wrong_recordings=_wrong_recordings(found),
        wrong_documents=_wrong_documents(found),
        wrong_subtasks=_wrong_subtasks(found),
        wrong_states=_wrong_states(found),
        wrong_results=_wrong_results(found),
        wrong_aggregates=_wrong_published(found) + _wrong_report(found) + _wrong_counts(found),
        repeated=sum(later <= earlier for earlier, later in pairwise(sequences)),
        missed=len(set(found.newest) - set(sequences)),
    )


def remarks(found: TasksEvidence) -> list[str]:
    """For the log: what a fault of subtasks is about."""
    wrong = wrong_targets(found)
    if not wrong:
        return []
    deadline = found.collection.deadline.ToDatetime()
    ends = [
        f"{one.number}: {(one.end_time.ToDatetime() - deadline).total_seconds():.1f} s"
        for one in found.members
    ]
    return [
        *(f"no subtask, or one too many: {target}" for target in sorted(wrong)),
        f"recordings ended, from the deadline: {', '.join(ends)}",
    ]


def word_count(text: str) -> int:
    """Words as the executor counts them."""
    return len(re.findall(r"\w+", text.lower()))


def _repeated(names: Sequence[Hashable]) -> int:
    return len(names) - len(set(names))


def _unlike(expected: Iterable[Hashable], names: Sequence[Hashable]) -> int:
    """How many are missing, surplus or there again."""
    return len(set(expected) ^ set(names)) + _repeated(names)


def _wrong_recordings(found: TasksEvidence) -> int:
    addresses = [one.source_url for one in found.members if one.state == COMPLETED]
    return (
        _unlike(found.recordings, addresses)
        + _repeated([one.source_url for one in found.members if one.state != COMPLETED])
        + _repeated([one.job_id for one in found.members])
        + sum(count - 1 for count in found.seen.ends.values() if count > _ends(found))
        + found.second_results
        + found.differing
    )


def _ends(found: TasksEvidence) -> int:
    """A member may end twice for its watchers: at the deadline, and late."""
    return 2 if any(one.late for one in found.members) else 1


def _wrong_documents(found: TasksEvidence) -> int:
    differing = sum(found.posts.get(one.url, one.text) != one.text for one in found.documents)
    return _unlike(found.posts, [one.url for one in found.documents]) + differing


def _wrong_subtasks(found: TasksEvidence) -> int:
    return len(wrong_targets(found)) + _repeated(_targets(found))


def wrong_targets(found: TasksEvidence) -> set[Target]:
    """What lacks its subtask, and what has one that should not be.

    Each specification has one, and for executors of items each item.
    """
    required: set[Target] = {
        (COLLECTOR, spec, 0, 0) for spec, _ in enumerate(found.asked.source_specs, 1)
    }
    optional: set[Target] = set()
    for spec, executor in enumerate(found.asked.executors, 1):
        if executor.scope != ITEM:
            required.add((EXECUTOR, spec, 0, 0))
            continue
        required |= {(EXECUTOR, spec, 0, one.number) for one in found.documents}
        for member in found.members:  # those that came late may have none
            place = optional if member.late else required
            place.add((EXECUTOR, spec, member.number, 0))
    there = set(_targets(found))
    return (required - there) | (there - required - optional)


def _targets(found: TasksEvidence) -> list[Target]:
    return [(one.role, one.spec, one.member, one.document) for one in found.subtasks]


def _wrong_states(found: TasksEvidence) -> int:
    """What never answers is timed out, all else completed: so the collection is partial."""
    wrong = sum(one.state != (TIMED_OUT if one.type == SILENT else DONE) for one in found.subtasks)
    partial = found.collection.state == collection_pb2.COLLECTION_STATE_PARTIAL
    return wrong + (not partial) + (not found.collection.settled)


def _wrong_results(found: TasksEvidence) -> int:
    collected = sum(one.found for one in found.subtasks if one.role == COLLECTOR)
    wrong = collected != len(found.posts) + len(found.recordings)
    again = sum(count - 1 for count in found.seen.completions.values())
    executed = [one for one in found.subtasks if one.role == EXECUTOR]
    return int(wrong) + again + sum(not _is_right(found, one) for one in executed)


def _is_right(found: TasksEvidence, subtask: task_pb2.Subtask) -> bool:
    names = [one.name for one in subtask.files]
    if not subtask.HasField("result") or len(names) != 1:
        return False
    content = found.files.get((subtask.number, names[0]), b"")
    if hashlib.sha256(content).hexdigest() != subtask.files[0].sha256:
        return False
    if subtask.type == REPORT:
        return _is_whole_report(found, json.loads(content))
    result = MessageToDict(subtask.result)
    rows = list(csv.reader(io.StringIO(content.decode())))[1:]
    counted = sum(int(times) for _, times in rows)
    return names == [WORDS_FILE] and counted == result["palavras"] == _words(found, subtask)


def _is_whole_report(found: TasksEvidence, report: Mapping[str, Any]) -> bool:
    documents = [one["url"] for one in report["documents"]]
    members = [one["number"] for one in report["members"]]
    return not _unlike(found.posts, documents) and not _unlike(
        [one.number for one in found.members], members
    )


def _words(found: TasksEvidence, subtask: task_pb2.Subtask) -> int:
    """The words an executor must have counted; of recordings, those counted one by one."""
    result = MessageToDict(subtask.result)
    texts = {one.number: one.text for one in found.documents}
    if subtask.document:
        return word_count(texts.get(subtask.document, "")) if result["itens"] == 1 else -1
    if subtask.member:
        return int(result["palavras"]) if result["itens"] == 1 else -1
    if not len(texts) <= result["itens"] <= len(texts) + len(found.members):
        return -1
    heard = [
        int(MessageToDict(one.result)["palavras"])
        for one in found.subtasks
        if one.member and one.HasField("result")
    ]
    if result["itens"] == len(texts) + len(heard):
        return sum(map(word_count, texts.values())) + sum(heard)
    return int(result["palavras"])  # it began before every recording was heard


def _wrong_published(found: TasksEvidence) -> int:
    """The aggregate came once, a second time only after late results, and says what the API says.

    A large one comes in parts, whose ids differ in what follows the point.
    """
    ids = [str(one["evento_id"]) for one in found.published]
    groups = list(dict.fromkeys(one.partition(".")[0] for one in ids))
    if not groups:
        return 1
    last = [
        one["payload"]
        for one in found.published
        if str(one["evento_id"]).partition(".")[0] == groups[-1]
    ]
    said = [part for payload in last for part in payload["subtarefas"]]
    expected = [_subtask_said(one) for one in found.subtasks]
    expected += [(None, one.number, _status(MEMBER_STATUSES, one.state)) for one in found.members]
    heard = [
        _part_said(one) if one.get("funcao") else (None, one["numero"], one["status"])
        for one in said
    ]
    counts = Counter(str(one["status"]) for one in said)
    stated = {name: count for name, count in last[-1]["contagens"].items() if count}
    faults = [
        len(groups) > MOST_AGGREGATES,
        len(last) != last[-1]["partes"],
        not last[-1]["definitivo"],
        last[-1]["completo"],
        last[-1]["total"] != len(said),
        stated != dict(counts),
        sorted(map(repr, expected)) != sorted(map(repr, heard)),
    ]
    return _repeated(ids) + sum(map(bool, faults))


def _status(names: Mapping[Any, str], state: int) -> str:
    return names.get(state, "erro")


def _subtask_said(one: task_pb2.Subtask) -> tuple[object, ...]:
    """What an aggregate has to say of it."""
    result = MessageToDict(one.result) if one.HasField("result") else None
    files = [file.sha256 for file in one.files]
    return one.number, one.task_id, one.type, _status(STATUSES, one.state), _text(result), files


def _part_said(one: Mapping[str, Any]) -> tuple[object, ...]:
    files = [file["sha256"] for file in one.get("arquivos", [])]
    about = one["numero"], one["tarefa_id"], one["fonte"], one["status"]
    return *about, _text(one.get("dados")), files


def _text(value: object) -> str:
    return json.dumps(value, sort_keys=True)


def _wrong_report(found: TasksEvidence) -> int:
    """The report of the API."""
    if not found.report:
        return 1
    stated = [
        (one["number"], one["type"], one["state"], _text(one["result"]))
        for one in found.report["subtasks"]
    ]
    expected = [
        (
            one.number,
            one.type,
            task_pb2.SubtaskState.Name(one.state).removeprefix("SUBTASK_STATE_"),
            _text(MessageToDict(one.result) if one.HasField("result") else None),
        )
        for one in found.subtasks
    ]
    documents = [one["url"] for one in found.report["documents"]]
    same = documents == [one.url for one in found.documents]
    return int(stated != expected) + int(not same)


def _wrong_counts(found: TasksEvidence) -> int:
    """The counts of the collection itself."""
    shown = found.collection
    counts = {one.state: one.count for one in shown.counts}
    pairs: list[tuple[object, object]] = [
        (shown.subtask_count, len(found.subtasks)),
        (shown.document_count, len(found.documents)),
        (shown.member_count, len(found.members)),
        (counts, dict(Counter(one.state for one in found.members))),
    ]
    return sum(stated != counted for stated, counted in pairs)
