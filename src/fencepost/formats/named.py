"""Formats by name, as the options `keyFormat` and `valueFormat` give them.

A format of one's own (Avro or Protobuf with a schema registry) is named by where it is: `mycompany.formats:AVRO` is the
object AVRO of that module. It must be installed where Spark's Python processes run.
"""

import functools
import importlib

from fencepost.errors import ConfigError
from fencepost.formats.format import Format

JSON, STRICT_JSON, STRING, BINARY = "json", "strict-json", "string", "binary"
#: As Kafka's serializers of these names write them.
SERIALIZERS = (STRING, BINARY, "boolean", "short", "integer", "long", "float", "double", "uuid")


@functools.cache
def find(name: str) -> Format:
    """Raises ConfigError if there is no such format. A format's module is imported here: some need numba."""
    if name in (JSON, STRICT_JSON):
        return _load("fencepost.formats.json_format", "JSON" if name == JSON else "STRICT_JSON", name)
    if name in SERIALIZERS:
        return _load("fencepost.formats.serializers", name.upper(), name)
    module, _, attribute = name.partition(":")
    if not attribute:
        known = ", ".join((JSON, STRICT_JSON, *SERIALIZERS))
        raise ConfigError(f"there is no format {name!r}: take one of {known}, or package.module:OBJECT for your own")
    return _load(module, attribute, name)


def _load(module: str, attribute: str, name: str) -> Format:
    try:
        found: Format = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"format {name!r} cannot be loaded: {error}") from error
    return found
