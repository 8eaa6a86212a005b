"""`fencepost shop` from the outside: run, run again, killed, interrupted, given bad input and wrong addresses."""

import json
import os
import re
import signal
from pathlib import Path

import pytest
from confluent_kafka import Producer

from fencepost.shop import PURCHASES
from fencepost.spark.sessions import tells_limits
from tests.commands import await_said, fencepost, started
from tests.unit.shop.bad_purchases import BAD, ODD_BUT_GOOD

RIGHT = "right: every purchase has exactly one invoice and one shipment"


def figure(said: str, name: str) -> str:
    """A cell of the table at the end."""
    line = next(line for line in said.splitlines() if line.strip().startswith(name))
    return line.strip().removeprefix(name).strip()


def test_it_goes_on_where_it_was_even_when_killed_and_says_nothing_but_what_it_does(tmp_path: Path):
    """Over TLS, with a login. Other tests do without."""
    words = ("shop", "--secure", "--data", tmp_path / "data", "--partitions", "2", "--batch", "1000")
    more = (*words, "--purchases", "12000")
    # A kill while the first purchases are written and Spark starts, and one with more of them and the pipeline at work.
    for number, (given, moment) in enumerate(
        [((*words, "--purchases", "2000"), "starting Spark"), (more, "transactions [1-9]")]
    ):
        log = tmp_path / f"log-{number}"
        with started(*given, log=log) as running:
            await_said(running, log, moment)
            if running.pid is not None:
                os.killpg(running.pid, signal.SIGKILL)  # the broker has a session of its own, and notices
    last = fencepost(*more)
    assert (last.returncode, last.stderr) == (0, ""), last.stdout
    assert RIGHT in last.stdout
    assert re.match(r"broker at 127.0.0.1:\d+ over SASL_SSL, data in ", last.stdout)
    assert (figure(last.stdout, "purchases"), figure(last.stdout, "shipments")) == ("12,000", "12,000")

    again = fencepost(*more)
    assert (again.returncode, again.stderr) == (0, ""), again.stdout
    assert RIGHT in again.stdout
    assert (figure(again.stdout, "purchases"), figure(again.stdout, "transactions")) == (
        "12,000",
        "0 committed, 0 aborted",
    )

    security = tmp_path / "data" / "broker" / "security"
    password = json.loads((security / "user.json").read_text())["password"].encode()
    assert [path for path in tmp_path.rglob("*") if path.is_file() and password in path.read_bytes()] == [
        security / "user.json"
    ]
    assert password.decode() not in again.stdout + last.stdout


def test_a_live_stream_ends_with_ctrl_c_and_everything_processed(tmp_path: Path):
    log = tmp_path / "log"
    words = ("--purchases", "100", "--partitions", "2", "--follow", "--rate", "50")
    with started("shop", "--data", tmp_path / "data", *words, log=log) as running:
        await_said(running, log, "transactions ([3-9]|[1-9][0-9])")
        assert running.is_running, log.read_text()
        os.kill(running.pid, signal.SIGINT)
        assert running.wait(240) == 0, log.read_text()
    said = log.read_text()
    assert RIGHT in said
    assert "Traceback" not in said


@pytest.mark.skipif(not tells_limits(), reason="before Spark 4.2 from_json takes other documents for purchases")
def test_bad_purchases_become_dead_letters_and_the_rest_goes_on(tmp_path: Path, bootstrap: str, cluster: object):
    producer = Producer({"bootstrap.servers": bootstrap})
    for value in (*BAD, *ODD_BUT_GOOD):
        producer.produce(PURCHASES, value, key=b"by hand")
    producer.flush()
    ran = fencepost("shop", "--data", tmp_path, "--bootstrap", bootstrap, "--purchases", "100")
    assert (ran.returncode, ran.stderr) == (0, ""), ran.stdout
    assert figure(ran.stdout, "dead letters") == str(len(BAD))
    report = json.loads(fencepost("verify", "--bootstrap", bootstrap, "--json").stdout)
    assert (report["right"], report["badPurchases"], report["deadLetters"]) == (True, len(BAD), len(BAD))
    assert report["invoices"] == 100 + len(ODD_BUT_GOOD)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--bootstrap", "127.0.0.1:1"), "no broker answers at bootstrap.servers (127.0.0.1:1: "),
        (("--master", "nonsense"), "Master must either be yarn or start with spark, k8s, or local (more in "),
        (("--master", "local[two]"), "Could not parse Master URL: 'local[two]' (more in "),
    ],
)
def test_a_wrong_address_is_one_message(tmp_path: Path, words: tuple[str, ...], message: str):
    ran = fencepost("shop", "--data", tmp_path, *words)
    assert ran.returncode == 1
    assert message in ran.stderr
    assert "Traceback" not in ran.stdout + ran.stderr


def test_a_data_directory_that_is_in_use_is_one_message(tmp_path: Path):
    import fencepost as package

    with package.Broker(tmp_path / "broker"):
        ran = fencepost("shop", "--data", tmp_path)
    assert ran.returncode == 1
    assert "Traceback" not in ran.stdout + ran.stderr
    assert "another broker" in ran.stderr.lower() or "lock" in ran.stderr.lower()
