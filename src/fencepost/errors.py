"""The tree of all exceptions, and Kafka's error codes.

::

    FencepostError
    ├── KafkaError            sent to a peer, or received from one: `code`, `message`
    ├── Malformed             bytes from outside do not have the format they should
    ├── ConfigError           a setting does not exist or cannot have this value
    ├── DataDirectoryLocked   another broker serves this directory
    ├── InvariantBroken       a bug of ours, never caused by a peer; logged, and answered as UNKNOWN_SERVER_ERROR
    ├── PipelineError         errors of a streaming pipeline, beyond those of its client
    │   ├── BatchRefused         the checkpoint and Kafka disagree; says what was found and what to do
    │   ├── UnknownPipeline      nothing on the cluster has this pipeline's name
    │   ├── ChangeRefused        a reset or deletion of a pipeline would do harm; says what to do instead
    │   ├── NotColumnar          a batch cannot be evaluated on Arrow columns for certain: Spark has to run it
    │   ├── QueryStopped         Spark stopped the query during a batch
    │   └── BatchFailed          every attempt to write a batch failed; says why each one did
    └── ClientError           errors of a client of a cluster
        ├── BootstrapFailed      no address answered; says why for each
        ├── AuthenticationFailed the broker refused the login, or cannot be trusted; says what to change
        ├── ConnectionLost       a broker hung up or did not answer: the request may or may not have taken effect
        ├── GaveUp               retried until the time was up; gives the last answer
        ├── KernelsUnavailable   numba, NumPy or PyArrow is not installed
        ├── Unsupported          the broker is too old (or too new) for the request
        ├── NotAuthorized        a right is missing; names it, and the command that grants it
        ├── Refused              an error code that has no class of its own; also a KafkaError
        ├── TopicNotFound        the topic or the partition does not exist
        ├── TransactionNotFound  there is no such transactional id, or no open transaction to end
        ├── AbortRefused         ending a transaction for its owner would do harm; says what to do instead
        ├── UnknownGroup         no consumer group has this name
        ├── GroupInUse           the consumer group has members, so its offsets are theirs
        ├── OffsetsOutOfRange    the records to read are gone
        ├── WriteFailed          records could not be written: abort the transaction
        ├── Fenced               a newer producer has the transactional id: stop, undo nothing
        ├── TransactionFailed    certainly not committed: the work may be repeated
        │   └── TransactionTimedOut  ... because the coordinator aborted it after `transaction.timeout.ms`
        └── OutcomeUnknown       committed or not: fence the id, then read what is committed

`KafkaError` is for what a peer can cause and Kafka has a code for. `Malformed` closes the connection, unless a layer
catches it and answers with a code (a producer gets CORRUPT_MESSAGE for a corrupt batch).

`TransactionFailed`, `Fenced` and `OutcomeUnknown` ask for three different things. Failed work is repeated. A fenced
producer must not try again, or two of them would take the id from each other forever. After an unknown outcome,
repeating could duplicate the work, and aborting could undo what others have already read.
"""

import enum
from collections.abc import Mapping


class ErrorCode(enum.IntEnum):
    """Kafka's codes under Kafka's names."""

    UNKNOWN_SERVER_ERROR = -1
    NONE = 0
    OFFSET_OUT_OF_RANGE = 1
    CORRUPT_MESSAGE = 2
    UNKNOWN_TOPIC_OR_PARTITION = 3
    INVALID_FETCH_SIZE = 4
    LEADER_NOT_AVAILABLE = 5
    NOT_LEADER_OR_FOLLOWER = 6
    REQUEST_TIMED_OUT = 7
    BROKER_NOT_AVAILABLE = 8
    REPLICA_NOT_AVAILABLE = 9
    MESSAGE_TOO_LARGE = 10
    STALE_CONTROLLER_EPOCH = 11
    OFFSET_METADATA_TOO_LARGE = 12
    NETWORK_EXCEPTION = 13
    COORDINATOR_LOAD_IN_PROGRESS = 14
    COORDINATOR_NOT_AVAILABLE = 15
    NOT_COORDINATOR = 16
    INVALID_TOPIC_EXCEPTION = 17
    RECORD_LIST_TOO_LARGE = 18
    NOT_ENOUGH_REPLICAS = 19
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20
    INVALID_REQUIRED_ACKS = 21
    ILLEGAL_GENERATION = 22
    INCONSISTENT_GROUP_PROTOCOL = 23
    INVALID_GROUP_ID = 24
    UNKNOWN_MEMBER_ID = 25
    INVALID_SESSION_TIMEOUT = 26
    REBALANCE_IN_PROGRESS = 27
    INVALID_COMMIT_OFFSET_SIZE = 28
    TOPIC_AUTHORIZATION_FAILED = 29
    GROUP_AUTHORIZATION_FAILED = 30
    CLUSTER_AUTHORIZATION_FAILED = 31
    INVALID_TIMESTAMP = 32
    UNSUPPORTED_SASL_MECHANISM = 33
    ILLEGAL_SASL_STATE = 34
    UNSUPPORTED_VERSION = 35
    TOPIC_ALREADY_EXISTS = 36
    INVALID_PARTITIONS = 37
    INVALID_REPLICATION_FACTOR = 38
    INVALID_REPLICA_ASSIGNMENT = 39
    INVALID_CONFIG = 40
    NOT_CONTROLLER = 41
    INVALID_REQUEST = 42
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43
    POLICY_VIOLATION = 44
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45
    DUPLICATE_SEQUENCE_NUMBER = 46
    INVALID_PRODUCER_EPOCH = 47
    INVALID_TXN_STATE = 48
    INVALID_PRODUCER_ID_MAPPING = 49
    INVALID_TRANSACTION_TIMEOUT = 50
    CONCURRENT_TRANSACTIONS = 51
    TRANSACTION_COORDINATOR_FENCED = 52
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
    SECURITY_DISABLED = 54
    OPERATION_NOT_ATTEMPTED = 55
    KAFKA_STORAGE_ERROR = 56
    LOG_DIR_NOT_FOUND = 57
    SASL_AUTHENTICATION_FAILED = 58
    UNKNOWN_PRODUCER_ID = 59
    REASSIGNMENT_IN_PROGRESS = 60
    DELEGATION_TOKEN_AUTH_DISABLED = 61
    DELEGATION_TOKEN_NOT_FOUND = 62
    DELEGATION_TOKEN_OWNER_MISMATCH = 63
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = 64
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65
    DELEGATION_TOKEN_EXPIRED = 66
    INVALID_PRINCIPAL_TYPE = 67
    NON_EMPTY_GROUP = 68
    GROUP_ID_NOT_FOUND = 69
    FETCH_SESSION_ID_NOT_FOUND = 70
    INVALID_FETCH_SESSION_EPOCH = 71
    LISTENER_NOT_FOUND = 72
    TOPIC_DELETION_DISABLED = 73
    FENCED_LEADER_EPOCH = 74
    UNKNOWN_LEADER_EPOCH = 75
    UNSUPPORTED_COMPRESSION_TYPE = 76
    STALE_BROKER_EPOCH = 77
    OFFSET_NOT_AVAILABLE = 78
    MEMBER_ID_REQUIRED = 79
    PREFERRED_LEADER_NOT_AVAILABLE = 80
    GROUP_MAX_SIZE_REACHED = 81
    FENCED_INSTANCE_ID = 82
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83
    ELECTION_NOT_NEEDED = 84
    NO_REASSIGNMENT_IN_PROGRESS = 85
    GROUP_SUBSCRIBED_TO_TOPIC = 86
    INVALID_RECORD = 87
    UNSTABLE_OFFSET_COMMIT = 88
    THROTTLING_QUOTA_EXCEEDED = 89
    PRODUCER_FENCED = 90
    RESOURCE_NOT_FOUND = 91
    DUPLICATE_RESOURCE = 92
    UNACCEPTABLE_CREDENTIAL = 93
    INCONSISTENT_VOTER_SET = 94
    INVALID_UPDATE_VERSION = 95
    FEATURE_UPDATE_FAILED = 96
    PRINCIPAL_DESERIALIZATION_FAILURE = 97
    SNAPSHOT_NOT_FOUND = 98
    POSITION_OUT_OF_RANGE = 99
    UNKNOWN_TOPIC_ID = 100
    DUPLICATE_BROKER_REGISTRATION = 101
    BROKER_ID_NOT_REGISTERED = 102
    INCONSISTENT_TOPIC_ID = 103
    INCONSISTENT_CLUSTER_ID = 104
    TRANSACTIONAL_ID_NOT_FOUND = 105
    FETCH_SESSION_TOPIC_ID_ERROR = 106
    INELIGIBLE_REPLICA = 107
    NEW_LEADER_ELECTED = 108
    OFFSET_MOVED_TO_TIERED_STORAGE = 109
    FENCED_MEMBER_EPOCH = 110
    UNRELEASED_INSTANCE_ID = 111
    UNSUPPORTED_ASSIGNOR = 112
    STALE_MEMBER_EPOCH = 113
    MISMATCHED_ENDPOINT_TYPE = 114
    UNSUPPORTED_ENDPOINT_TYPE = 115
    UNKNOWN_CONTROLLER_ID = 116
    UNKNOWN_SUBSCRIPTION_ID = 117
    TELEMETRY_TOO_LARGE = 118
    INVALID_REGISTRATION = 119
    TRANSACTION_ABORTABLE = 120
    INVALID_RECORD_STATE = 121
    SHARE_SESSION_NOT_FOUND = 122
    INVALID_SHARE_SESSION_EPOCH = 123
    FENCED_STATE_EPOCH = 124
    INVALID_VOTER_KEY = 125
    DUPLICATE_VOTER = 126
    VOTER_NOT_FOUND = 127
    INVALID_REGULAR_EXPRESSION = 128
    REBOOTSTRAP_REQUIRED = 129
    STREAMS_INVALID_TOPOLOGY = 130
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131
    STREAMS_TOPOLOGY_FENCED = 132
    SHARE_SESSION_LIMIT_REACHED = 133


class FencepostError(Exception):
    """The root of the tree."""


class KafkaError(FencepostError):
    def __init__(self, code: ErrorCode, message: str = "") -> None:
        super().__init__(f"{code.name}: {message}" if message else code.name)
        self.code = code
        self.message = message

    def __reduce__(self) -> tuple[type["KafkaError"], tuple[ErrorCode, str]]:
        """Errors travel between processes."""
        return type(self), (self.code, self.message)


class Malformed(FencepostError):
    """Bytes from outside do not have the format they should."""


class ConfigError(FencepostError):
    """A setting does not exist or cannot have this value."""


class DataDirectoryLocked(FencepostError):
    """Another broker serves this directory."""


class InvariantBroken(FencepostError):
    """A bug of ours. State stays as it was; the request is answered with UNKNOWN_SERVER_ERROR."""


class PipelineError(FencepostError):
    """Errors of a streaming pipeline, beyond those of its client."""


class BatchRefused(PipelineError):
    """Running the batch could duplicate or lose records, so nothing was written."""


class UnknownPipeline(PipelineError):
    """The cluster has no ledger entry, no offsets and no transactional id of this pipeline."""


class ChangeRefused(PipelineError):
    """A pipeline cannot be reset or deleted as asked. Nothing was changed."""


class NotColumnar(PipelineError):
    """What a query gives for these values is not certain on Arrow columns. Not for users: Spark runs the batch."""


class QueryStopped(PipelineError):
    """Spark stopped the query during a batch. The batch was undone."""


class BatchFailed(PipelineError):
    """The batch could not be written. Every attempt was undone."""


class ClientError(FencepostError):
    """Errors of a client of a cluster."""


class BootstrapFailed(ClientError):
    """No bootstrap address answered."""

    def __init__(self, reasons: Mapping[str, str]) -> None:
        super().__init__(dict(reasons))
        self.reasons = dict(reasons)  #: by address

    def __str__(self) -> str:
        tried = "; ".join(f"{address}: {reason}" for address, reason in self.reasons.items())
        return f"no broker answers at bootstrap.servers ({tried})"


class ConnectionLost(ClientError):
    """A broker hung up or did not answer. The request may or may not have taken effect."""


class AuthenticationFailed(ClientError):
    """The broker refused the login, or could not show that it is the right one. Trying again will not help."""


class GaveUp(ClientError):
    """Retried until the time was up."""


class KernelsUnavailable(ClientError):
    """The code that converts records to columns and back cannot be loaded. The message says what to install."""


class Unsupported(ClientError):
    """The broker and this client have no version of a request in common."""


class NotAuthorized(ClientError):
    """A right is missing. The message names it and the command that grants it."""

    right: object = None  #: `client.rights.Right`, in the process that was refused


class Refused(ClientError, KafkaError):
    """A broker refused with a code that has no class of its own."""


class TopicNotFound(ClientError):
    """The topic or the partition does not exist."""

    topic: str | None = None  #: the name that no topic has

    @classmethod
    def named(cls, topic: str) -> "TopicNotFound":
        error = cls(f"topic {topic!r} does not exist")
        error.topic = topic
        return error


class TransactionNotFound(ClientError):
    """The transactional id does not exist, or no transaction is open where one should be ended."""


class AbortRefused(ClientError):
    """A transaction is not ended for its owner. Nothing was changed."""


class UnknownGroup(ClientError):
    """The cluster has no consumer group of this name."""


class GroupInUse(ClientError):
    """The consumer group has members. Nothing was changed."""


class OffsetsOutOfRange(ClientError):
    """The records to read are gone: deleted by retention, or with their topic."""


class WriteFailed(ClientError):
    """Records could not be written. Some may be in the log, so the transaction must be aborted."""


class Fenced(ClientError):
    """A newer producer has the transactional id. It also ends any open transaction."""


class TransactionFailed(ClientError):
    """The transaction is not committed and will not be."""


class TransactionTimedOut(TransactionFailed):
    """The coordinator aborted the transaction because it was open longer than its timeout."""


class OutcomeUnknown(ClientError):
    """A commit was sent, and its outcome could not be found out."""
