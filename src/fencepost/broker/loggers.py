"""The levels of this process's loggers, by Kafka's names for levels. Clients see them as BROKER_LOGGER resources."""

import logging

from fencepost.errors import ErrorCode, KafkaError

ROOT = "root"
TRACE = 5
LEVELS = {
    "DEBUG": logging.DEBUG,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
    "INFO": logging.INFO,
    "TRACE": TRACE,
    "WARN": logging.WARNING,
}


def levels() -> dict[str, str]:
    """The level in force of the root logger and of each of ours."""
    names = sorted(name for name in logging.root.manager.loggerDict if name.split(".")[0] == "fencepost")
    return {name: _name(_logger(name).getEffectiveLevel()) for name in (ROOT, *names)}


def check(name: str, level: str | None) -> None:
    """KafkaError unless the logger exists and can have this level. None removes the logger's own level."""
    if name != ROOT and name not in logging.root.manager.loggerDict:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"Logger {name} does not exist!")
    if level is None and name == ROOT:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Removing the log level of the root logger is not allowed")
    if level is not None and level not in LEVELS:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"Cannot set the log level of {name} to {level} as it is not a supported log level. "
            f"Valid log levels are {', '.join(LEVELS)}",
        )


def set_level(name: str, level: str | None) -> None:
    _logger(name).setLevel(logging.NOTSET if level is None else LEVELS[level])


def _logger(name: str) -> logging.Logger:
    return logging.getLogger(None if name == ROOT else name)


def _name(level: int) -> str:
    """The most verbose Kafka level that shows nothing that this Python level hides."""
    quiet_enough = [name for name, found in LEVELS.items() if found >= level]
    return min(quiet_enough, key=LEVELS.__getitem__, default="FATAL")
