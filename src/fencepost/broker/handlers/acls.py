"""ACLs, as `kafka-acls` keeps them. Without an authorizer all three requests are answered with SECURITY_DISABLED."""

import enum
from itertools import groupby
from typing import Any, TypeVar

from fencepost.broker.acl import (
    CLUSTER_NAME,
    Acl,
    AclFilter,
    Operation,
    Pattern,
    Permission,
    Resource,
)
from fencepost.broker.authorizer import Authorizer
from fencepost.broker.dispatch import Call, Response, handler
from fencepost.broker.outcome import DONE, refused
from fencepost.broker.principals import Principal
from fencepost.errors import ConfigError, ErrorCode, KafkaError

E = TypeVar("E", bound=enum.IntEnum)


@handler(29, versions=(1, 3))
def describe_acls(call: Call) -> Response:
    """DescribeAcls (29): the ACLs that a filter lets through, by resource."""
    try:
        call.require(Operation.DESCRIBE, Resource.CLUSTER)
        authorizer = _authorizer(call, "No Authorizer is configured on the broker")
        found = sorted(authorizer.select(_filter(call.request)))
    except KafkaError as error:
        return {**refused(error), "resources": []}
    resources = [
        {
            "resource_type": resource,
            "resource_name": name,
            "pattern_type": pattern,
            "acls": [_entry(acl) for acl in acls],
        }
        for (resource, name, pattern), acls in groupby(found, key=lambda acl: (acl.resource, acl.name, acl.pattern))
    ]
    return {**DONE, "resources": resources}


@handler(30, versions=(1, 3))
def create_acls(call: Call) -> Response:
    """CreateAcls (30): each is created or refused on its own; all with one sync of the disk."""
    creations = call.request.creations
    try:
        call.require(Operation.ALTER, Resource.CLUSTER)
        authorizer = _authorizer(call)
        results, wanted = [], []
        for creation in creations:
            try:
                wanted.append(_acl(creation))
                results.append(DONE)
            except KafkaError as error:
                results.append(refused(error))
        authorizer.create(wanted)
    except KafkaError as error:
        results = [refused(error)] * len(creations)
    return {"results": results}


@handler(31, versions=(1, 3))
def delete_acls(call: Call) -> Response:
    """DeleteAcls (31): delete what filters let through, all with one sync of the disk."""
    filters = call.request.filters
    try:
        call.require(Operation.ALTER, Resource.CLUSTER)
        authorizer = _authorizer(call)
        results: list[dict[str, Any]] = []
        doomed: list[Acl] = []
        for each in filters:
            try:
                found = authorizer.select(_filter(each))
                doomed += found
                results.append({**DONE, "matching_acls": [_deleted(acl) for acl in found]})
            except KafkaError as error:
                results.append(refused(error))
        authorizer.delete(doomed)
    except KafkaError as error:
        results = [refused(error)] * len(filters)
    return {"filter_results": results}


def _authorizer(call: Call, problem: str = "No Authorizer is configured.") -> Authorizer:
    if call.broker.authorizer is None:
        raise KafkaError(ErrorCode.SECURITY_DISABLED, problem)
    return call.broker.authorizer


def _acl(creation: Any) -> Acl:
    """What is to be created. KafkaError if it cannot be."""
    acl = Acl(
        _known(Resource, creation.resource_type, "resourceType"),
        creation.resource_name,
        _known(Pattern, creation.resource_pattern_type, "patternType"),
        creation.principal,
        creation.host,
        _known(Operation, creation.operation, "operation"),
        _known(Permission, creation.permission_type, "permissionType"),
    )
    if acl.resource is Resource.CLUSTER and acl.name != CLUSTER_NAME:
        raise _invalid(f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
    if not acl.name:
        raise _invalid("Invalid empty resource name")
    for value, what in (
        (acl.resource, "resourceType"), (acl.operation, "operation"), (acl.permission, "permissionType"),
        (acl.pattern, "patternType"),
    ):  # fmt: skip
        if value.name in ("ANY", "MATCH"):
            raise _invalid(f"Invalid {what} {value.name}")
    try:
        Principal.parse(acl.principal)
    except ConfigError as error:
        raise _invalid(str(error)) from None
    return acl


def _filter(asked: Any) -> AclFilter:
    return AclFilter(
        _known(Resource, asked.resource_type_filter, "resourceType"),
        asked.resource_name_filter,
        _known(Pattern, asked.pattern_type_filter, "patternType"),
        asked.principal_filter,
        asked.host_filter,
        _known(Operation, asked.operation, "operation"),
        _known(Permission, asked.permission_type, "permissionType"),
    )


def _known(kind: type[E], number: int, what: str) -> E:
    try:
        return kind(number)
    except ValueError:
        raise _invalid(f"Invalid {what} {number}") from None


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)


def _entry(acl: Acl) -> dict[str, Any]:
    return {
        "principal": acl.principal,
        "host": acl.host,
        "operation": acl.operation,
        "permission_type": acl.permission,
    }


def _deleted(acl: Acl) -> dict[str, Any]:
    where = {"resource_type": acl.resource, "resource_name": acl.name, "pattern_type": acl.pattern}
    return {**DONE, **where, **_entry(acl)}
