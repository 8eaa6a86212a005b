"""Names and addresses of hosts: which are this machine's alone, and which a browser may call us by. Pure."""

import ipaddress

LOCAL_NAMES = frozenset({"localhost"})


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches it."""
    if host.lower() in LOCAL_NAMES:
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_known_host(host: str, names: frozenset[str] = LOCAL_NAMES) -> bool:
    """Whether a Host header is an address, or one of these names in lower case. Ports may be those of a tunnel.

    A page elsewhere can make its own name resolve to this machine, so that a browser lets it read our answers. Then the
    header has that name.
    """
    name = host[: host.rindex("]") + 1] if host.startswith("[") and "]" in host else host.partition(":")[0]
    if name.lower() in names:
        return True
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True
