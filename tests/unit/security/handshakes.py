"""TLS handshakes in memory: what both sides of a connection say of each other."""

import ssl


def handshake(
    client: ssl.SSLContext, server: ssl.SSLContext, host: str = "localhost"
) -> tuple[ssl.SSLObject, ssl.SSLObject]:
    """Both ends, agreed. Raises the ssl.SSLError of the side that refuses."""
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    one = client.wrap_bio(to_client, to_server, server_side=False, server_hostname=host)
    other = server.wrap_bio(to_server, to_client, server_side=True)
    pending = [one, other]
    for _ in range(10):
        for end in list(pending):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
            pending.remove(end)
        if not pending:
            # In TLS 1.3 the client is done before the server has seen its certificate; a refusal comes afterwards.
            try:
                one.read(1)
            except ssl.SSLWantReadError:
                return one, other
    raise AssertionError("the handshake does not end")
