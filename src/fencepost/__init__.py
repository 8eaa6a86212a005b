"""fencepost: an embedded, durable broker that speaks the Kafka protocol, transactions included.

    import fencepost

    with fencepost.Broker() as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})

Importing this package is cheap: what it exports is loaded when it is first used.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fencepost.embedded import Broker

__version__ = "0.1.0"
__all__ = ["Broker", "__version__"]


def __getattr__(name: str) -> Any:
    if name == "Broker":
        from fencepost.embedded import Broker

        return Broker
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
