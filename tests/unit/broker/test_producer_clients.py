"""Which client took a transactional id last."""

from fencepost.broker.producer_clients import ProducerClient, ProducerClients


def test_the_last_client_is_known_while_it_has_the_producer_and_old_ones_are_forgotten():
    clients = ProducerClients(ids_max=2)
    first, second = ProducerClient("a", "10.0.0.1", 1), ProducerClient("b", "10.0.0.2", 2)
    clients.note("x", first)
    clients.note("y", second)
    clients.note("x", first)
    assert clients.of("x", 1) == first
    assert clients.of("x", 9) is None, "the id has another producer"
    clients.note("z", second)
    assert clients.of("y", 2) is None, "it was taken longest ago"
    assert clients.of("x", 1) == first and clients.of("z", 2) == second
