"""Metrics of the pipelines of this process, for Prometheus to scrape or for OpenTelemetry to push. Nothing is on unless
it is asked for.

    from fencepost.spark import metrics

    metrics.serve("127.0.0.1:9465")                          # http://127.0.0.1:9465/metrics
    spark.streams.addListener(metrics.OpenTelemetryListener())

A pipeline's numbers come from the process that runs `foreachBatch`, which is the driver. With Spark Connect that is a
process of the server. There the program that started the query learns them from Spark's progress of it, batch by batch
(`listener`).
"""

from typing import TYPE_CHECKING

from fencepost.spark.metrics.serving import Serving
from fencepost.spark.metrics.text import render

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from fencepost.spark.metrics.otel import OpenTelemetryListener

__all__ = ["OpenTelemetryListener", "Serving", "render", "serve"]


def serve(address: str | int = "127.0.0.1:9465", spark: "SparkSession | None" = None) -> Serving:
    """Serve the metrics of all pipelines of this process at http://HOST:PORT/metrics, without a login.

    Without a host it is 127.0.0.1; port 0 is a free one. `spark` is the session whose queries are watched, by default
    the active one. `close` of what is returned ends both.
    """
    from fencepost.metrics.address import parse_metrics_address
    from fencepost.spark.metrics.listener import QueryListener
    from fencepost.spark.sessions import active_session

    where, session = parse_metrics_address(str(address), "the address of metrics"), spark or active_session()
    serving = Serving(where, render)
    if session is not None:
        listener = QueryListener(session)
        session.streams.addListener(listener)
        serving.when_closed(lambda: session.streams.removeListener(listener))
        serving.when_closed(listener.close)
    return serving


def __getattr__(name: str) -> type:
    if name == "OpenTelemetryListener":  # its package is an extra
        from fencepost.spark.metrics.otel import OpenTelemetryListener

        return OpenTelemetryListener
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
