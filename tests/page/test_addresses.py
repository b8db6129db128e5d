"""Parsing of pasted URLs and searches."""

import pytest

from tests.page.scripts import run


@pytest.mark.parametrize(
    ("text", "listed", "addresses", "wrong"),
    [
        (
            "https://a.test/1\nb.test/2  https://a.test/1",
            False,
            ["https://a.test/1", "https://b.test/2"],
            [],
        ),
        ("https://a.test/1\nnonsense", False, ["https://a.test/1"], ["nonsense"]),
        ("ytsearch5:some weather\na.test/list", True, None, []),
        ("ytsearch5:weather", False, [], ["ytsearch5:weather"]),
        ("javascript:alert(1)", True, [], ["javascript:alert(1)"]),
        (" \n ", True, [], []),
    ],
)
def test_valid_addresses_are_split_from_invalid_ones(
    text: str, listed: bool, addresses: list[str] | None, wrong: list[str]
) -> None:
    found = run("addresses.js", "module.sorted(...given)", [text, listed])

    wanted = ["ytsearch5:some weather", "https://a.test/list"] if addresses is None else addresses
    assert found == {"addresses": wanted, "wrong": wrong}


@pytest.mark.parametrize(
    ("address", "web"),
    [
        ("https://a.test/1", True),
        ("HTTP://a.test", True),
        ("javascript:alert(1)//https://a.test", False),
        ("\njavascript:alert(1)", False),
        ("data:text/html,x", False),
        ("//a.test", False),
        ("a.test", False),
        ("", False),
    ],
)
def test_only_addresses_of_the_web_become_links(address: str, web: bool) -> None:
    assert run("addresses.js", "module.isWeb(given)", address) is web
