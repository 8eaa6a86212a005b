"""A Kerberos realm of its own: MIT's KDC on loopback, with keytabs, in one directory.

There are two krb5.conf. The brokers' has the usual lifetimes. The client's has tickets that last seconds, and no
patience with those that have ended.
"""

import os
import shutil
import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Self

import pytest

from fencepost.child import Child
from fencepost.lab.kit.servers import HOST, free_ports
from tests.conftest import wait_until

REALM = "TEST.REALM"
TICKET_LIFE_S = 4
#: Debian keeps the KDC where only root's PATH leads.
PATH = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])


def missing() -> str | None:
    """None when the tests can run here, otherwise what to install."""
    programs = [name for name in ("krb5kdc", "kdb5_util", "kadmin.local", "kinit") if not shutil.which(name, path=PATH)]
    if programs:
        return f"{', '.join(programs)} not found: apt-get install krb5-kdc krb5-admin-server krb5-user"
    try:
        import gssapi  # noqa: F401
    except ImportError:
        return "the package gssapi is not installed: apt-get install libkrb5-dev, pip install 'fencepost[kerberos]'"
    return None


class Kdc:
    def __init__(self, home: Path) -> None:
        self.home = home
        (self.port,) = free_ports(1)
        self.config, self.client_config = home / "krb5.conf", home / "client.conf"
        self.log_file = home / "kdc.log"
        self._child: Child | None = None
        self.config.write_text(self._settings())
        self.client_config.write_text(self._settings(f" ticket_lifetime = {TICKET_LIFE_S}s\n clockskew = 1\n"))
        database = f"database_name = {home}/principal\n key_stash_file = {home}/stash\n acl_file = {home}/acl"
        (home / "kdc.conf").write_text(
            f"[kdcdefaults]\n kdc_listen = {HOST}:{self.port}\n kdc_tcp_listen = {HOST}:{self.port}\n"
            f"[realms]\n{REALM} = {{\n {database}\n}}\n[logging]\n kdc = FILE:{self.log_file}\n"
        )
        self.run("kdb5_util", "create", "-s", "-r", REALM, "-P", "master")

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _settings(self, more: str = "") -> str:
        return (
            f"[libdefaults]\n default_realm = {REALM}\n dns_lookup_kdc = false\n dns_lookup_realm = false\n"
            " dns_canonicalize_hostname = false\n rdns = false\n udp_preference_limit = 1\n"
            f"{more}[realms]\n{REALM} = {{\n kdc = {HOST}:{self.port}\n}}\n[domain_realm]\n localhost = {REALM}\n"
        )

    def start(self, variables: Mapping[str, str] | None = None) -> Self:
        self._child = Child(self.home / "output", "the KDC", logs_output=True)
        self._child.start(
            [str(shutil.which("krb5kdc", path=PATH)), "-n", "-r", REALM], {**self._variables(), **(variables or {})}
        )
        wait_until(self._answers, "the KDC listens")
        return self

    def stop(self) -> None:
        if self._child is not None:
            self._child.kill()

    def _answers(self) -> bool:
        try:
            socket.create_connection((HOST, self.port), 1).close()
        except OSError:
            return False
        return True

    def _variables(self) -> dict[str, str]:
        return {"KRB5_CONFIG": str(self.config), "KRB5_KDC_PROFILE": str(self.home / "kdc.conf")}

    def run(self, program: str, *arguments: str) -> str:
        command = [str(shutil.which(program, path=PATH)), *arguments]
        done = subprocess.run(
            command, env={**os.environ, **self._variables()}, capture_output=True, text=True, check=False
        )
        if done.returncode:
            pytest.fail(f"{' '.join(command)}: {done.stdout}{done.stderr}")
        return done.stdout

    def add(self, principal: str) -> Path:
        """A principal with a new key; the keytab that has it."""
        self.run("kadmin.local", "-r", REALM, "-q", f"addprinc +requires_preauth -randkey {principal}")
        return self.export(principal, principal.replace("/", "-"))

    def export(self, principal: str, name: str) -> Path:
        """Give the principal another key. Keytabs that were made before no longer work."""
        path = self.home / f"{name}.keytab"
        self.run("kadmin.local", "-r", REALM, "-q", f"ktadd -k {path} {principal}")
        return path

    def kinit(self, keytab: Path, principal: str, life_s: int = 600) -> Path:
        """A ticket cache."""
        cache = self.home / f"cache-{principal}-{life_s}"
        self.run("kinit", "-c", str(cache), "-l", f"{life_s}s", "-k", "-t", str(keytab), principal)
        return cache

    def logins(self, principal: str) -> int:
        """How many tickets it was given that others are asked for with."""
        wanted = f"{principal}@{REALM} for krbtgt/{REALM}@{REALM}"
        lines = self.log_file.read_text().splitlines() if self.log_file.exists() else []
        return sum("AS_REQ" in line and "ISSUE" in line and wanted in line for line in lines)
