"""`fencepost tx`: words, JSON and exit codes."""

import json
import re
import signal
import subprocess

from fencepost.lab.kit.servers import Ours
from fencepost.wire.terms import TopicPartition
from tests import logins
from tests.commands import await_said, started
from tests.conftest import MakeTopic, unique
from tests.observe import stuck
from tests.observe.stuck import told, tx


def test_looking_at_a_live_transaction(bootstrap: str, topic: MakeTopic):
    name, transactional_id = topic(), unique("fencepost-shop")
    producer = stuck.begin(bootstrap, transactional_id, name, "a")
    (listed,) = told(bootstrap, "ls", "--open", "--match", transactional_id)
    (described,) = told(bootstrap, "describe", transactional_id)
    assert listed == described
    assert listed["partitions"] == [{"topic": name, "partition": 0}]
    (shown,) = told(bootstrap, "producers", f"{name}:0", "--open")
    assert (shown["producer_id"], shown["txn_start_offset"]) == (listed["producer_id"], 0)
    assert re.search(rf"{transactional_id} +Ongoing", tx(bootstrap, "ls").stdout)
    assert "unless its producer ends it before" in tx(bootstrap, "describe", transactional_id).stdout
    (why,) = told(bootstrap, "why", f"{name}:0", exit_code=4)
    assert (why["verdict"], why["holds"][0]["cause"]) == ("held", "open")
    shown = tx(bootstrap, "why", name)
    assert f"abort --id {transactional_id} --force --yes" in shown.stdout
    refused = tx(bootstrap, "abort", f"{name}:0", "--yes")
    assert refused.exit_code == 1 and "add --force" in refused.stderr
    (done,) = told(bootstrap, "abort", "--id", transactional_id, "--force", "--yes")
    assert (done["done"], done["proven"], done["stable"][0]["before"]) == (True, True, 0)
    assert told(bootstrap, "why", name)[0]["verdict"] == "clear"
    del producer


def test_a_hanging_transaction_from_finding_to_ending_it(trusting: str, trusting_topic: MakeTopic):
    name = trusting_topic()
    stuck.leave_hanging(trusting, name, producer_id=4_400)
    stuck.write(trusting, name, "waits")
    (found,) = told(trusting, "hanging", name, exit_code=4)
    assert (found["producer_id"], found["txn_start_offset"]) == (4_400, 0)
    assert (
        tx(trusting, "hanging", name, "--older-than", "15m").stdout == "no transaction hangs (1 partition looked at)\n"
    )
    shown = tx(trusting, "why", name)
    assert shown.exit_code == 4
    assert "HANGING" in shown.stdout and f"fencepost tx abort {name}:0 --yes -b" in shown.stdout
    planned = tx(trusting, "abort", f"{name}:0")
    assert planned.exit_code == 1 and "Would abort" in planned.stdout and "add --yes" in planned.stderr
    done = tx(trusting, "abort", f"{name}:0", "--yes")
    assert done.exit_code == 0
    assert f"{TopicPartition(name, 0)}: the last stable offset moved from 0 to 3, the end" in done.stdout
    assert tx(trusting, "hanging", name).exit_code == 0


def test_our_own_broker_names_the_client(broker: Ours, topic: MakeTopic):
    transactional_id = unique("named")
    stuck.begin(broker.bootstrap, transactional_id, topic(), "a").abort_transaction(30)
    assert told(broker.bootstrap, "describe", transactional_id)[0]["client"] == "rdkafka at 127.0.0.1"


def test_what_does_not_exist_and_what_is_wrong(bootstrap: str, topic: MakeTopic):
    name = topic()
    assert tx(bootstrap, "describe", unique("nobody")).exit_code == 3
    assert tx(bootstrap, "why", unique("nothing")).exit_code == 3
    assert tx(bootstrap, "producers", f"{name}:5").exit_code == 3
    assert tx(bootstrap, "abort", f"{name}:0").exit_code == 3
    for missing in (f"{unique('nothing')}:0", f"{name}:5"):
        done = tx(bootstrap, "abort", missing)
        assert done.exit_code == 3 and done.stderr.count("\n") == 1, missing
    for wrong in (["why", f"{name}:x"], ["abort", name], ["ls", "--older-than", "soon"], ["ls", "--match", "("]):
        assert tx(bootstrap, *wrong).exit_code == 2, wrong
    assert "Kafka has no transaction state nap" in tx(bootstrap, "ls", "--state", "nap").stderr


def test_watch_prints_what_happens_until_it_is_interrupted(bootstrap: str, topic: MakeTopic, tmp_path):
    name, transactional_id, log = topic(), unique("watched"), tmp_path / "log"
    security = [word for pair in logins.java(bootstrap).items() for word in ("-X", "=".join(pair))]
    words = ["--match", transactional_id, "--interval", "0.05", "--json", *security]
    stuck.commit(bootstrap, transactional_id, name, "before")
    with started("tx", "watch", *words, log=log) as watching:
        producer = stuck.begin(bootstrap, transactional_id, name, "a")
        await_said(watching, log, '"event": "begin"')
        producer.commit_transaction(30)
        await_said(watching, log, '"event": "commit"')
        stuck.begin(bootstrap, transactional_id, name, "left open", timeout_ms=1_000)
        await_said(watching, log, '"event": "expire"')
        watching.signal(signal.SIGINT)
        assert watching.wait(20) == 0
    events = [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]
    assert {each["id"] for each in events} == {transactional_id}
    expired = next(each for each in events if each["event"] == "expire")
    assert expired["duration_ms"] >= 1_000
    assert "Traceback" not in log.read_text()


def test_an_id_cannot_speak_to_the_terminal_and_the_command_that_ends_it_is_right(bootstrap: str, topic: MakeTopic):
    name, transactional_id = topic(), unique("odd") + " 'é\\\n\x1b[31m\x07\u202e"
    producer = stuck.begin(bootstrap, transactional_id, name, "a")
    for words in (["ls"], ["why", f"{name}:0"], ["describe", transactional_id], ["abort", f"{name}:0"]):
        done = tx(bootstrap, *words)
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f\u202e]", done.stdout + done.stderr), words
    (line,) = re.findall(r"--id (.*) --force", tx(bootstrap, "why", f"{name}:0").stdout)
    spelt = subprocess.run(["bash", "-c", f"printf %s {line}"], capture_output=True, check=True).stdout
    assert spelt.decode() == transactional_id
    producer.abort_transaction(30)
