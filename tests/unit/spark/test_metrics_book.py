"""What the book keeps of queries that come and go: one series for each name, and not ever more of them."""

from fencepost.spark.metrics.book import ENDED_KEPT, Book, QueryFacts
from fencepost.spark.metrics.text import render
from tests.metrics.support import Scrape


def read_five_rows(facts: QueryFacts) -> None:
    facts.input_rows += 5


def test_a_query_that_starts_again_without_its_checkpoint_goes_on_in_the_same_series() -> None:
    book = Book()
    for query_id in ("first", "second"):  # a new checkpoint is a new id
        book.start(query_id, "totals")
        book.change(query_id, read_five_rows)
        if query_id == "first":
            book.end(query_id, has_failed=True)
    found = Scrape.of_text(render(book))
    assert found.value("fencepost_query_input_rows_total", query="totals") == 10
    assert found.value("fencepost_query_active", query="totals") == 1
    assert found.value("fencepost_query_failed", query="totals") == 0, "the one that runs has not"


def test_two_queries_that_run_keep_a_series_each() -> None:
    book = Book()
    for name in ("left", "right"):
        book.start(name, name)
        book.change(name, read_five_rows)
    assert len(list(Scrape.of_text(render(book)).samples("fencepost_query_active"))) == 2


def test_queries_that_have_ended_are_forgotten_after_some_others() -> None:
    book = Book()
    book.start("runs", "runs")
    for number in range(ENDED_KEPT + 5):
        book.start(f"id {number}", f"id {number}")
        book.end(f"id {number}", has_failed=False)
    names = {facts.name for _, facts in book.queries()}
    assert len(names) == ENDED_KEPT + 1
    assert "runs" in names and "id 4" not in names and "id 5" in names
