"""The counting that judges a collection with collectors and executors after the chaos."""

import hashlib
import json
from collections import Counter
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from benchmarks.chaos_gathered import SeenCollection
from benchmarks.chaos_mesh import planned_kills
from benchmarks.chaos_report import Run, table, to_json
from benchmarks.chaos_strangers import PROGRAMS
from benchmarks.chaos_subtasks import SILENT, TasksEvidence, weigh_tasks
from benchmarks.processes import SERVICES
from ytcaption.v1 import collection_pb2, task_pb2
from ytcaption.v1 import collection_service_pb2 as pb

ADDRESS, POST, TEXT = "http://site/1.ogg", "http://blog/1", "duas palavras"
DONE, FAILED = task_pb2.SUBTASK_STATE_COMPLETED, task_pb2.SUBTASK_STATE_FAILED
TIMED_OUT = task_pb2.SUBTASK_STATE_TIMED_OUT
COLLECTOR, EXECUTOR = task_pb2.TASK_ROLE_COLLECTOR, task_pb2.TASK_ROLE_EXECUTOR
HEARD = collection_pb2.MEMBER_STATE_COMPLETED
ASKED = pb.CreateCollectionRequest(
    source_specs=[task_pb2.SourceSpec(type=name) for name in ("url", "blog", SILENT)],
    executors=[
        task_pb2.ExecutorSpec(kind="palavras", scope=task_pb2.EXECUTOR_SCOPE_ITEM),
        task_pb2.ExecutorSpec(kind="palavras", scope=task_pb2.EXECUTOR_SCOPE_COLLECTION),
        task_pb2.ExecutorSpec(kind="relatorio", scope=task_pb2.EXECUTOR_SCOPE_COLLECTION),
    ],
)


@dataclass
class Case:
    """What is stored of a collection in which all went well, to be spoiled."""

    subtasks: list[task_pb2.Subtask] = field(default_factory=list)
    files: dict[tuple[int, str], bytes] = field(default_factory=dict)
    members: list[collection_pb2.Member] = field(
        default_factory=lambda: [
            collection_pb2.Member(number=1, source_url=ADDRESS, job_id="job", state=HEARD)
        ]
    )
    documents: list[task_pb2.Document] = field(
        default_factory=lambda: [task_pb2.Document(number=1, url=POST, text=TEXT)]
    )

    def __post_init__(self) -> None:
        self._add(COLLECTOR, "url", 1, found=1)
        self._add(COLLECTOR, "blog", 2, found=1)
        self._add(COLLECTOR, SILENT, 3, state=TIMED_OUT)
        self.add_words(1, 1, 5, member=1)
        self.add_words(1, 1, 2, document=1)
        self.add_words(2, 2, 7)
        report = {"documents": [{"url": POST}], "members": [{"number": 1}]}
        self.add_result("relatorio", 3, "relatorio.json", json.dumps(report).encode(), documentos=1)

    def _add(self, role: Any, type_: str, spec: int, **fields: Any) -> task_pb2.Subtask:
        number = len(self.subtasks) + 1
        usual: dict[str, Any] = {"state": DONE, "task_id": f"task {number}"}
        self.subtasks.append(
            task_pb2.Subtask(number=number, role=role, type=type_, spec=spec, **(usual | fields))
        )
        return self.subtasks[-1]

    def add_words(self, spec: int, items: int, words: int, **about: Any) -> None:
        content = f"palavra,vezes\numa,{words}\n".encode()
        self.add_result("palavras", spec, "palavras.csv", content, about, itens=items)
        self.subtasks[-1].result.update({"palavras": words, "distintas": 1})

    def add_result(
        self, kind: str, spec: int, name: str, content: bytes, about: Any = None, **result: Any
    ) -> None:
        digest = hashlib.sha256(content).hexdigest()
        file = task_pb2.ResultFile(name=name, sha256=digest)
        subtask = self._add(EXECUTOR, kind, spec, files=[file], **(about or {}))
        subtask.result.update(result)
        self.files[subtask.number, name] = content

    def evidence(self) -> TasksEvidence:
        """As the mesh shows what is there."""
        return TasksEvidence(
            asked=ASKED,
            recordings=[ADDRESS],
            posts={POST: TEXT},
            collection=collection_pb2.Collection(
                state=collection_pb2.COLLECTION_STATE_PARTIAL,
                settled=True,
                subtask_count=len(self.subtasks),
                document_count=len(self.documents),
                member_count=len(self.members),
                counts=[
                    collection_pb2.MemberCount(state=state, count=count)
                    for state, count in Counter(one.state for one in self.members).items()
                ],
            ),
            members=self.members,
            subtasks=self.subtasks,
            documents=self.documents,
            files=self.files,
            report=self._report(),
            published=[self._published()],
            newest=[5, 6],
            seen=SeenCollection(sequences=[5, 6]),
            second_results=0,
            differing=0,
        )

    def _report(self) -> dict[str, Any]:
        subtasks = [
            {
                "number": one.number,
                "type": one.type,
                "state": task_pb2.SubtaskState.Name(one.state).removeprefix("SUBTASK_STATE_"),
                "result": dict(one.result) if one.HasField("result") else None,
            }
            for one in self.subtasks
        ]
        return {"subtasks": subtasks, "documents": [{"url": one.url} for one in self.documents]}

    def _published(self) -> dict[str, Any]:
        words = {DONE: "concluida", TIMED_OUT: "timeout", FAILED: "erro"}
        parts: list[dict[str, Any]] = [
            {"numero": one.number, "status": "concluida" if one.state == HEARD else "erro"}
            for one in self.members
        ]
        for one in self.subtasks:
            part: dict[str, Any] = {
                "funcao": "escavador" if one.role == COLLECTOR else "executador",
                "numero": one.number,
                "tarefa_id": one.task_id,
                "fonte": one.type,
                "status": words[one.state],
            }
            if one.HasField("result"):
                part["dados"] = dict(one.result)
                part["arquivos"] = [{"sha256": file.sha256} for file in one.files]
            parts.append(part)
        return {
            "evento_id": "event",
            "payload": {
                "completo": False,
                "definitivo": True,
                "total": len(parts),
                "contagens": dict(Counter(part["status"] for part in parts)) | {"pendente": 0},
                "partes": 1,
                "subtarefas": parts,
            },
        }


def _figures(evidence: TasksEvidence) -> dict[str, int]:
    """The figures that are not 0."""
    return {name: count for name, count in weigh_tasks(evidence).figures().items() if count}


def test_a_collection_whose_executors_did_all_there_was_is_no_fault() -> None:
    run = Run(seed=1, jobs=1, tasks=weigh_tasks(Case().evidence(), kills=3))

    assert run.fault() == ""
    assert "subtasks of collectors and executors 7" in " ".join(table(run).split())
    assert to_json(run)["tasks"]["kills"] == 3


def _spoil_subtask(number: int, **fields: Any) -> Callable[[Case], None]:
    def spoil(case: Case) -> None:
        for name, value in fields.items():
            setattr(case.subtasks[number - 1], name, value)

    return spoil


def _words_again(case: Case) -> None:
    case.add_words(1, 1, 2, document=1)


def _without_item(case: Case) -> None:
    del case.subtasks[4]  # the aggregates leave it out, too


def _document_again(case: Case) -> None:
    case.documents.append(task_pb2.Document(number=2, url=POST, text=TEXT))
    case.add_words(1, 1, 2, document=2)


def _other_text(case: Case) -> None:
    case.documents[0].text = "outras palavras"


def _lost_document(case: Case) -> None:
    case.documents.clear()
    del case.subtasks[4]


def _member_again(case: Case) -> None:
    case.members.append(deepcopy(case.members[0]))


def _lost_member(case: Case) -> None:
    case.members[0].state = collection_pb2.MEMBER_STATE_FAILED


def _no_result(case: Case) -> None:
    case.subtasks[5].ClearField("result")
    case.subtasks[5].ClearField("files")


def _other_bytes(case: Case) -> None:
    case.files[6, "palavras.csv"] += b"duas,1\n"


def _too_many_words(case: Case) -> None:
    del case.subtasks[5:]
    case.add_words(2, 2, 9)
    case.add_result("relatorio", 3, "relatorio.json", case.files[7, "relatorio.json"])
    case.subtasks[-1].result.update({"documentos": 1})


RESULTS = "results missing, twice or wrong"
SUBTASKS = "subtasks missing or twice"
STATES = "subtasks in a wrong state"
DOCUMENTS = "documents missing, twice or different"
RECORDINGS = "collected recordings missing, twice or different"
AGGREGATES = "aggregates that differ from the subtasks"


@pytest.mark.parametrize(
    ("spoil", "figure"),
    [
        (_words_again, SUBTASKS),
        (_without_item, SUBTASKS),
        (_spoil_subtask(5, document=9), SUBTASKS),
        (_spoil_subtask(2, state=FAILED), STATES),
        (_spoil_subtask(3, state=DONE), STATES),
        (_spoil_subtask(6, state=TIMED_OUT), STATES),
        (_document_again, DOCUMENTS),
        (_other_text, DOCUMENTS),
        (_lost_document, DOCUMENTS),
        (_member_again, RECORDINGS),
        (_lost_member, RECORDINGS),
        (_spoil_subtask(2, found=2), RESULTS),
        (_no_result, RESULTS),
        (_other_bytes, RESULTS),
        (_too_many_words, RESULTS),
    ],
)
def test_what_is_lost_twice_or_wrong_is_named(spoil: Callable[[Case], None], figure: str) -> None:
    case = Case()
    spoil(case)

    assert figure in _figures(case.evidence())


def _published(**changes: Any) -> dict[str, Any]:
    event = deepcopy(dict(Case().evidence().published[0]))
    event["payload"] |= changes
    return event


def _published_part(**changes: Any) -> dict[str, Any]:
    event = _published()
    event["payload"]["subtarefas"][-1] |= changes
    return event


@pytest.mark.parametrize(
    "published",
    [
        [],
        [_published(), _published()],
        [_published() | {"evento_id": name} for name in ("one", "two", "three")],
        [_published(definitivo=False)],
        [_published(completo=True)],
        [_published(total=3)],
        [_published(contagens={"concluida": 8})],
        [_published(partes=2)],
        [_published_part(status="erro")],
        [_published_part(dados={"documentos": 2})],
        [_published_part(arquivos=[])],
    ],
)
def test_an_aggregate_that_is_missing_repeated_or_differs_is_named(
    published: list[dict[str, Any]],
) -> None:
    found = _figures(replace(Case().evidence(), published=published))

    assert list(found) == [AGGREGATES]


def test_an_aggregate_before_the_late_results_is_no_fault() -> None:
    before = _published(definitivo=False, subtarefas=[], total=0) | {"evento_id": "before"}

    assert not _figures(replace(Case().evidence(), published=[before, _published()]))


def test_a_report_and_counts_that_differ_from_the_subtasks_are_named() -> None:
    right = Case().evidence()
    report = dict(right.report) | {"documents": []}
    counted = deepcopy(right.collection)
    counted.subtask_count += 1

    assert _figures(replace(right, report=report)) == {AGGREGATES: 1}
    assert _figures(replace(right, report={})) == {AGGREGATES: 1}
    assert _figures(replace(right, collection=counted)) == {AGGREGATES: 1}


def test_a_watcher_that_misses_or_sees_changes_twice_is_named() -> None:
    again = SeenCollection(sequences=[5, 6, 6])
    twice = SeenCollection(sequences=[5, 6], completions=Counter({4: 2}))

    assert _figures(replace(Case().evidence(), seen=again)) == {
        "changes of subtasks a watcher saw twice": 1
    }
    assert _figures(replace(Case().evidence(), newest=[5, 6, 7])) == {
        "changes of subtasks a watcher missed": 1
    }
    assert _figures(replace(Case().evidence(), seen=twice)) == {RESULTS: 1}


def test_the_programs_of_third_parties_are_killed_as_often_as_the_services() -> None:
    kinds = (*SERVICES, *PROGRAMS)
    planned = list(planned_kills(6 * len(kinds), 4, 1, kinds))

    assert Counter(blow.kind for blow in planned) == dict.fromkeys(kinds, 6)
