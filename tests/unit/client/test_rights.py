"""A missing right: the sentence about it, the command that grants it, and what is looked at for which purpose."""

import pytest

from fencepost.client.rights import Operation, Right, refusal, wanted
from fencepost.client.settings import ClientSettings
from fencepost.errors import ErrorCode, NotAuthorized, Refused

PRODUCE, METADATA, CREATE_TOPICS, INIT_PRODUCER_ID = 0, 3, 19, 22
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required username={} password=secret;"
TOPIC = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def settings(user: str | None = None, **more: str) -> ClientSettings:
    sasl = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.jaas.config": PLAIN.format(user)}
    return ClientSettings.parse({"bootstrap.servers": "one:9093,two:9093", **(sasl if user else {}), **more})


@pytest.mark.parametrize(
    ("api_key", "code", "rest"),
    [
        (PRODUCE, TOPIC, "--operation Write --topic invoices"),
        (METADATA, TOPIC, "--operation Describe --topic invoices"),
        (CREATE_TOPICS, TOPIC, "--operation Create --topic invoices"),
        (CREATE_TOPICS, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "--operation Create --cluster"),
        (METADATA, ErrorCode.GROUP_AUTHORIZATION_FAILED, "--operation Read --group invoices"),
        (PRODUCE, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "--operation Write --transactional-id invoices"),
    ],
)
def test_the_command_grants_what_the_request_needs(api_key: int, code: ErrorCode, rest: str) -> None:
    error = refusal(settings("alice"), api_key, code, "invoices", "otherwise")
    assert isinstance(error, NotAuthorized)
    whole = f"kafka-acls --bootstrap-server one:9093 --command-config FILE --add --allow-principal User:alice {rest}"
    assert str(error).endswith(f"This grants it: {whole}")
    assert code.name in str(error)
    assert "secret" not in str(error)


def test_an_id_that_is_made_up_for_one_write_needs_a_right_on_all_such_ids() -> None:
    code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    error = str(refusal(settings(), INIT_PRODUCER_ID, code, "fencepost-batch-local-17-0", ""))
    assert "on transactional id 'fencepost-batch-local-17-0'" in error
    assert error.endswith("--operation Write --resource-pattern-type prefixed --transactional-id fencepost-batch-")


def test_other_codes_are_refused_as_ever() -> None:
    error = refusal(settings(), PRODUCE, ErrorCode.INVALID_REQUEST, "t", "why")
    assert isinstance(error, Refused)
    assert str(error) == "INVALID_REQUEST: why"


@pytest.mark.parametrize(
    ("client", "who", "principal"),
    [
        (settings(), "User:ANONYMOUS lacks", "--add --allow-principal User:ANONYMOUS "),
        (settings("'a b'"), "User:a b lacks", "--allow-principal 'User:a b' "),
        (settings("'${env:NOT_SET_ANYWHERE}'"), "your principal lacks", "--allow-principal User:NAME "),
        (settings(**{"security.protocol": "SSL"}), "your principal lacks", "--allow-principal User:NAME "),
    ],
    ids=["nobody", "a name to quote", "a reference that is gone", "a certificate"],
)
def test_whose_right_it_is_as_far_as_that_is_known(client: ClientSettings, who: str, principal: str) -> None:
    error = str(refusal(client, PRODUCE, TOPIC, "t", ""))
    assert error.startswith(who)
    assert principal in error


def test_a_topic_that_one_may_not_see_lacks_the_right_that_it_is_wanted_for() -> None:
    both = pytest.raises(NotAuthorized, match="--operation Read --operation Write --topic t")
    with both as raised, wanted(Operation.READ, Operation.WRITE):
        raise refusal(settings(), METADATA, TOPIC, "t", "")
    assert isinstance(raised.value.right, Right)
    with pytest.raises(NotAuthorized, match="--operation Create --topic t"), wanted(Operation.READ):
        raise refusal(settings(), CREATE_TOPICS, TOPIC, "t", "")
