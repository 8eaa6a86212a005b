"""sasl.jaas.config, read as Kafka reads it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.errors import ConfigError
from fencepost.security import jaas

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


@pytest.mark.parametrize(
    ("text", "options"),
    [
        (f'{PLAIN} required username="alice" password="s3cret";', {"username": "alice", "password": "s3cret"}),
        (f"{PLAIN} required username='alice' password='it\\'s';", {"username": "alice", "password": "it's"}),
        (f"{PLAIN} REQUIRED username=alice-1.b_$ password=x;", {"username": "alice-1.b_$", "password": "x"}),
        (f'  {PLAIN}\n  required\n  username = "a b"\n  password="c;d=e";\n', {"username": "a b", "password": "c;d=e"}),
        (
            f'{PLAIN} required // a comment\n username="a" /* and\n another */ password="//no";',
            {"username": "a", "password": "//no"},
        ),
        (
            rf'{PLAIN} required password="tab\tquote\"slash\\octal\101\0z\q";',
            {"password": 'tab\tquote"slash\\octalA\0zq'},
        ),
        (f'{PLAIN} required password="päss wörd ☃";', {"password": "päss wörd ☃"}),
        (f'{PLAIN} required password="";', {"password": ""}),
        (f'{PLAIN} required username="first" username="second";', {"username": "second"}),
        (f"{PLAIN} required;", {}),
    ],
)
def test_reads_a_login_module_with_quotes_escapes_and_comments(text: str, options: dict[str, str]) -> None:
    assert jaas.parse(text) == jaas.Login(PLAIN, options)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "is empty"),
        ("  // nothing\n", "is empty"),
        (f'{PLAIN} required username="a"', "must end with a semicolon"),
        (f'{PLAIN} username="a";', "must be followed by `required`"),
        (f"{PLAIN};", "must be followed by `required`"),
        ("= required;", "must begin with a login module"),
        (f"{PLAIN} required username;", "option 'username' must be followed by = and a value"),
        (f"{PLAIN} required username=;", "option 'username' has no value"),
        (f'{PLAIN} required ="a";', "an option's name is missing"),
        (f"{PLAIN} required password=1234;", "put the value of 'password' in quotes"),
        (f'{PLAIN} required password="open;', "cannot be read from character"),
        (f'{PLAIN} required password="line\nend";', "cannot be read from character"),
        (f"{PLAIN} required a=b; {PLAIN} required c=d;", "more than one login module"),
    ],
)
def test_says_what_is_wrong(text: str, error: str) -> None:
    with pytest.raises(ConfigError, match=error):
        jaas.parse(text)


def test_neither_an_error_nor_a_printed_login_shows_a_password() -> None:
    with pytest.raises(ConfigError) as caught:
        jaas.parse(f'{PLAIN} required password="hunter2" username;')
    assert "hunter2" not in str(caught.value)
    assert "hunter2" not in repr(jaas.parse(f'{PLAIN} required password="hunter2";'))


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_a_quoted_value_is_read_back(value: str) -> None:
    assert jaas.parse(f"{PLAIN} required password={jaas.quote(value)};").options == {"password": value}
