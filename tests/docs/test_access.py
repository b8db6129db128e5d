"""The page of rpcs, routes and owners is the table that the tests ask."""

from tests.orchestrator.access.page import PAGE, page


def test_the_page_shows_the_tables_that_are_asked() -> None:
    assert PAGE.read_text(encoding="utf-8") == page()
