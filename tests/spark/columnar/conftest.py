from tests.spark.sink.conftest import here

__all__ = ["here"]
