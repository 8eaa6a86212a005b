"""Settings that stand for a value elsewhere: `${env:NAME}`, `${file:PATH:KEY}` and `${dir:PATH:KEY}`.

These are the config providers that come with Kafka, always on. They are resolved where a connection is made, so that a
plan or a pickled setting carries the reference and not the secret, and each machine reads its own file. A reference
that leads nowhere is an error here, where Kafka would go on with the text of the reference as the password.
"""

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from fencepost.errors import ConfigError

REFERENCE = re.compile(r"\$\{(env|file|dir):(?:([^}]*):)?([^}:]*)\}")
MAX_FILE_BYTES = 1 << 20

#: The names under which people declare the same providers in Java, and which are therefore accepted.
JAVA_CLASSES = {
    "org.apache.kafka.common.config.provider.EnvVarConfigProvider": "env",
    "org.apache.kafka.common.config.provider.FileConfigProvider": "file",
    "org.apache.kafka.common.config.provider.DirectoryConfigProvider": "dir",
}


def has_reference(value: str) -> bool:
    return REFERENCE.search(value) is not None


def resolve(name: str, value: str, environ: Mapping[str, str] = os.environ) -> str:
    """The value of setting `name` with its references replaced. Raises ConfigError."""

    def replacement(found: "re.Match[str]") -> str:
        provider, path, key = found.groups()
        try:
            return _PROVIDERS[provider](path or "", key, environ)
        except (OSError, ConfigError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise ConfigError(f"{name}: {found[0]} cannot be resolved on this machine: {reason}") from None
        except ValueError:  # its text may quote the file
            raise ConfigError(
                f"{name}: {found[0]} cannot be resolved: the file is not UTF-8 or not as it must be"
            ) from None

    return REFERENCE.sub(replacement, value)


def _from_env(path: str, key: str, environ: Mapping[str, str]) -> str:
    if key not in environ:
        raise ConfigError("the environment has no such variable")
    return environ[key]


def _from_file(path: str, key: str, environ: Mapping[str, str]) -> str:
    import javaproperties  # slow to import, and rarely needed

    found = javaproperties.loads(_read(path))
    if key not in found:
        raise ConfigError("the file has no such key")
    return found[key]


def _from_dir(path: str, key: str, environ: Mapping[str, str]) -> str:
    """A file per value, as Kubernetes mounts a secret. Its content is the value, line ends included, as in Kafka."""
    if "/" in key or key in ("", ".", ".."):
        raise ConfigError("the key must be a file in that directory")
    return _read(os.path.join(path, key))


def _read(path: str) -> str:
    content = Path(path).read_bytes()
    if len(content) > MAX_FILE_BYTES:
        raise ConfigError(f"the file has {len(content)} bytes, more than {MAX_FILE_BYTES}")
    return content.decode()


_PROVIDERS: dict[str, Callable[[str, str, Mapping[str, str]], str]] = {
    "env": _from_env,
    "file": _from_file,
    "dir": _from_dir,
}
