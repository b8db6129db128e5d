"""Who calls and what each role may do: the one table of methods, and the caller of the moment."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from enum import IntEnum

from mesh.errors import ForbiddenError
from mesh.reasons import Reason


class Role(IntEnum):
    """Roles in ascending order, with their numbers in the contract; each includes those before."""

    ANYONE = 0
    """Callers without a token."""
    READER = 1
    SUBMITTER = 2
    OPERATOR = 3
    ADMIN = 4


METHODS: dict[str, Role] = {
    "PipelineService/CreateJob": Role.SUBMITTER,
    "PipelineService/CreateJobFromUpload": Role.SUBMITTER,
    "PipelineService/GetJob": Role.READER,
    "PipelineService/ListJobs": Role.READER,
    "PipelineService/WatchJobs": Role.READER,
    "PipelineService/WatchJob": Role.READER,
    "PipelineService/CancelJob": Role.SUBMITTER,
    "PipelineService/RepeatJob": Role.SUBMITTER,
    "PipelineService/DeleteJob": Role.SUBMITTER,
    "PipelineService/GetCaptions": Role.READER,
    "PipelineService/DownloadArtifact": Role.READER,
    "PipelineService/TranscribeStream": Role.SUBMITTER,
    "PipelineService/GetAbilities": Role.READER,
    "CollectionService/CreateCollection": Role.SUBMITTER,
    "CollectionService/GetCollection": Role.READER,
    "CollectionService/ListCollections": Role.READER,
    "CollectionService/WatchCollections": Role.READER,
    "CollectionService/WatchCollection": Role.READER,
    "CollectionService/CancelCollection": Role.SUBMITTER,
    "CollectionService/DeleteCollection": Role.SUBMITTER,
    "CollectionService/GetReport": Role.READER,
    "CollectionService/ListSubtasks": Role.READER,
    "CollectionService/ListDocuments": Role.READER,
    "CollectionService/GetResultFile": Role.READER,
    "AdminService/GetStats": Role.OPERATOR,
    "AdminService/GetHealth": Role.ANYONE,
    "AdminService/Cleanup": Role.OPERATOR,
    "AdminService/FactoryReset": Role.ADMIN,
    "AdminService/ListDeadLetters": Role.READER,
    "AdminService/ReplayDeadLetter": Role.SUBMITTER,
    "AdminService/PurgeDeadLetters": Role.SUBMITTER,
    "AdminService/ListWebhookDeliveries": Role.READER,
    "AdminService/ListAudit": Role.ADMIN,
    "AdminService/ExportOwner": Role.READER,
    "AdminService/EraseOwner": Role.ADMIN,
    "AdminService/SetOwnerRetention": Role.ADMIN,
    "AdminService/ListOwnerRetentions": Role.ADMIN,
    "AdminService/RegisterType": Role.ADMIN,
    "AdminService/UnregisterType": Role.ADMIN,
    "AdminService/ListTypes": Role.READER,
    "AuthService/CreateToken": Role.ADMIN,
    "AuthService/ListTokens": Role.ADMIN,
    "AuthService/RevokeToken": Role.ADMIN,
    "AuthService/GetCaller": Role.READER,
    "AuthService/CreateLink": Role.READER,
    "AuthService/OpenLink": Role.ANYONE,
    "AuthService/CreateSession": Role.READER,
    "AuthService/EndSessions": Role.READER,
    "AuthService/GetLoginMethods": Role.ANYONE,
    "AuthService/BeginLogin": Role.ANYONE,
    "AuthService/CompleteLogin": Role.ANYONE,
    "QuotaService/GetQuota": Role.READER,
    "QuotaService/SetQuota": Role.ADMIN,
    "SearchService/Search": Role.READER,
}
"""The least role for each method; one that is missing may be called by no role."""

HIGH_PRIORITY = Role.OPERATOR
"""The least role for jobs that go before those of all others."""
QUOTAS_OF_OTHERS = Role.ADMIN
"""The least role to read the quota of another owner."""

PACKAGE = "/ytcaption.v1."


@dataclass(frozen=True, slots=True)
class Scope:
    """Whose things exist for a caller: the one predicate of owners and groups."""

    owner: str | None = None
    """None: those of all owners."""
    groups: frozenset[str] = frozenset()

    def includes(self, owner: str, group: str) -> bool:
        """Whether what belongs to this owner, shared with this group, if any, is among them."""
        return self.owner in (None, owner) or (bool(group) and group in self.groups)


ALL = Scope()


@dataclass(frozen=True, slots=True)
class Caller:
    """On whose behalf a call runs."""

    role: Role
    subject: str = ""
    """The person or program the token identifies; empty without one."""
    token_id: str = ""
    groups: tuple[str, ...] = ()
    """Groups of the token; the first is what new things are shared with."""

    @property
    def scope(self) -> "Scope":
        """What exists for the caller."""
        return ALL if self.role >= Role.OPERATOR else Scope(self.subject, frozenset(self.groups))

    def sees(self, owner: str, group: str) -> bool:
        """Whether what belongs to this owner, shared with this group, exists for the caller."""
        return self.scope.includes(owner, group)

    def sharing(self, asked: str | None) -> str:
        """The group to share something new with; raises unless it is one of the caller's."""
        if asked is None:
            return self.groups[0] if self.groups else ""
        if asked and asked not in self.groups:
            raise ForbiddenError(
                f"the token does not belong to the group {asked[:128]!r}",
                reason=Reason.GROUP_FORBIDDEN,
            )
        return asked

    def sharing_again(self, before: str) -> str:
        """The same group as before if it is the caller's, else that of anything new."""
        return before if before in self.groups else self.sharing(None)

    def check(self, method: str) -> None:
        """Raises unless the role may call the method, such as "PipelineService/GetJob"."""
        required = METHODS.get(method)
        if required is None or self.role < required:
            role = "no role" if required is None else f"only the role {required.name.lower()}"
            raise ForbiddenError(f"{role} may call {method[:100]}", reason=Reason.ROLE_REQUIRED)

    def require(self, role: Role, what: str) -> None:
        """Raises unless the caller has at least this role; `what` is what only that role may do."""
        if self.role < role:
            raise ForbiddenError(
                f"only the role {role.name.lower()} may {what}", reason=Reason.ROLE_REQUIRED
            )


TRUSTED = Caller(Role.ADMIN)
"""Everyone where there is no login, and the mesh itself."""
STRANGER = Caller(Role.ANYONE)

_caller: ContextVar[Caller] = ContextVar("caller", default=TRUSTED)


def current() -> Caller:
    """The caller this code runs for; the mesh itself outside of a call."""
    return _caller.get()


@contextmanager
def acting_for(caller: Caller) -> Iterator[None]:
    """Runs the block on behalf of a caller."""
    before = _caller.set(caller)
    try:
        yield
    finally:
        _caller.reset(before)
