"""Decides what clients may do, as Kafka's StandardAuthorizer does: by ACLs, with super users above them.

A denial wins over every permission. If no ACL is about a resource, only super users may touch it, or everybody with
`allow.everyone.if.no.acl.found`. The meaning of an ACL is in `acl`; this module finds those that matter quickly.

Invariants: an ACL takes effect when its line in the catalogue is durable, not before; after any change no decision
from before it is used again; memory does not grow with what clients ask.
"""

import logging
from collections import Counter
from collections.abc import Iterable, Iterator

from fencepost.broker.acl import ANYTHING, Acl, AclFilter, Operation, Pattern, Permission, Resource
from fencepost.broker.catalogue import Catalogue
from fencepost.broker.principals import Principal
from fencepost.broker.security_settings import STANDARD_AUTHORIZER
from fencepost.broker.settings import Settings
from fencepost.errors import ConfigError

logger = logging.getLogger(__name__)

#: Decisions that are remembered. When there are more, all are forgotten.
DECISIONS_MAX = 10_000
#: Names come from clients: for longer ones nothing is remembered. No topic has a longer name.
NAME_MAX = 249
#: Kafka's own choice of a name for the question "any topic at all?".
SOME_NAME = "hardcode"

Key = tuple[Principal, str, int, str]  #: principal, host, operation and kind of resource, name


class Acls:
    """All ACLs, found by the name of a resource: a lookup for the name, one for `*`, one per length of a prefix."""

    def __init__(self) -> None:
        self._literal: dict[tuple[Resource, str], set[Acl]] = {}
        self._prefixed: dict[tuple[Resource, str], set[Acl]] = {}
        self._lengths: dict[Resource, Counter[int]] = {resource: Counter() for resource in Resource}

    def __iter__(self) -> Iterator[Acl]:
        for index in (self._literal, self._prefixed):
            for found in index.values():
                yield from found

    def add(self, acl: Acl) -> None:
        key = (acl.resource, acl.name)
        if acl.pattern is Pattern.PREFIXED:
            if key not in self._prefixed:
                self._lengths[acl.resource][len(acl.name)] += 1
            self._prefixed.setdefault(key, set()).add(acl)
        else:
            self._literal.setdefault(key, set()).add(acl)

    def remove(self, acl: Acl) -> None:
        key = (acl.resource, acl.name)
        index = self._prefixed if acl.pattern is Pattern.PREFIXED else self._literal
        index[key].discard(acl)
        if not index[key]:
            del index[key]
            if index is self._prefixed:
                lengths = self._lengths[acl.resource]
                lengths[len(acl.name)] -= 1
                if not lengths[len(acl.name)]:
                    del lengths[len(acl.name)]

    def about(self, resource: Resource, name: str) -> Iterator[Acl]:
        """Every ACL that applies to this resource."""
        yield from self._literal.get((resource, name), ())
        if name != ANYTHING:
            yield from self._literal.get((resource, ANYTHING), ())
        for length in self._lengths[resource]:
            if length <= len(name):
                yield from self._prefixed.get((resource, name[:length]), ())


class Authorizer:
    def __init__(self, settings: Settings, catalogue: Catalogue) -> None:
        """The catalogue is open."""
        self._super_users = _super_users(settings)
        self._allow_unknown = settings.allow_everyone_if_no_acl_found
        self._catalogue = catalogue
        self._acls = Acls()
        for acl in catalogue.acls:
            self._acls.add(acl)
        self._decisions: dict[Key, bool] = {}
        if not (self._super_users or catalogue.acls or self._allow_unknown):
            logger.warning("nobody may do anything: set super.users to somebody who can give rights (docs/security.md)")

    # -- decisions ---------------------------------------------------------------------------------------------------

    def allows(self, principal: Principal, host: str, operation: Operation, resource: Resource, name: str) -> bool:
        """Whether somebody at an address may do this to the resource of that name."""
        # One number for both: hashing an Enum runs Python code, and this is asked with every Produce and Fetch.
        key = (principal, host, operation * 16 + resource, name)
        decision = self._decisions.get(key)
        if decision is None:
            decision = self._remember(key, self._decide(principal, host, operation, resource, name))
        return decision

    def _remember(self, key: Key, decision: bool) -> bool:
        if len(key[-1]) <= NAME_MAX:
            if len(self._decisions) >= DECISIONS_MAX:
                self._decisions.clear()
            self._decisions[key] = decision
        return decision

    def _decide(self, principal: Principal, host: str, operation: Operation, resource: Resource, name: str) -> bool:
        if str(principal) in self._super_users:
            return True
        is_allowed = found_any = False
        for acl in self._acls.about(resource, name):
            found_any = True
            if acl.concerns(principal, host, operation):
                if acl.permission is Permission.DENY:
                    return False
                is_allowed = True
        return is_allowed if found_any else self._allow_unknown

    def allows_some(self, principal: Principal, host: str, operation: Operation, resource: Resource) -> bool:
        """Whether there is any name that this is allowed for (KIP-679). Implied operations do not count."""
        key = (principal, host, -(operation * 16 + resource), "")  # not the question for the name ""
        decision = self._decisions.get(key)
        if decision is None:
            some_name = self.allows(principal, host, operation, resource, SOME_NAME)
            decision = self._remember(key, some_name or self._decide_some(principal, host, operation, resource))
        return decision

    def _decide_some(self, principal: Principal, host: str, operation: Operation, resource: Resource) -> bool:
        concerned = [
            acl
            for acl in self._acls
            if acl.resource is resource
            and acl.operation in (operation, Operation.ALL)
            and acl.concerns(principal, host, operation)
        ]
        denied = {(acl.pattern, acl.name) for acl in concerned if acl.permission is Permission.DENY}
        if (Pattern.LITERAL, ANYTHING) in denied:
            return False
        return any(not _is_covered(acl, denied) for acl in concerned if acl.permission is Permission.ALLOW)

    # -- changes -----------------------------------------------------------------------------------------------------

    def select(self, wanted: AclFilter) -> list[Acl]:
        return [acl for acl in self._catalogue.acls if wanted.lets_through(acl)]

    def create(self, acls: Iterable[Acl]) -> None:
        """Durable when this returns. One that exists already stays as it is."""
        new = [acl for acl in dict.fromkeys(acls) if acl not in self._catalogue.acls]
        if new:
            self._catalogue.write([{"acl": acl.fields()} for acl in new])
            for acl in new:
                self._acls.add(acl)
            self._decisions.clear()

    def delete(self, acls: Iterable[Acl]) -> None:
        """Durable when this returns."""
        gone = [acl for acl in dict.fromkeys(acls) if acl in self._catalogue.acls]
        if gone:
            self._catalogue.write([{"acl_gone": acl.fields()} for acl in gone])
            for acl in gone:
                self._acls.remove(acl)
            self._decisions.clear()


def _is_covered(allowing: Acl, denied: set[tuple[Pattern, str]]) -> bool:
    """Whether a denial covers every name that this ACL allows."""
    if allowing.pattern is Pattern.LITERAL and allowing.name == ANYTHING:
        return False
    if (allowing.pattern, allowing.name) in denied:
        return True
    lengths = range(1, len(allowing.name) + 1)
    return any((Pattern.PREFIXED, allowing.name[:length]) in denied for length in lengths)


def check_settings(settings: Settings) -> None:
    """ConfigError if an authorizer cannot be made of them."""
    wanted = settings.authorizer_class_name
    if wanted not in ("", STANDARD_AUTHORIZER):
        raise ConfigError(
            f"authorizer.class.name={wanted} is a class that this broker cannot run: {STANDARD_AUTHORIZER} turns ACLs "
            "on, an empty value turns them off"
        )
    _super_users(settings)


def _super_users(settings: Settings) -> set[str]:
    """`User:alice;User:bob`. Names may contain commas, as those of certificates do."""
    return {str(Principal.parse(part)) for part in settings.super_users.split(";") if part.strip()}
