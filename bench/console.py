"""What the console costs with many partitions and many transactional ids: first paint, scripting per update, memory.

    python -m bench.console [--ids 10000] [--partitions 1000] [--seconds 20]

Needs Chromium and Playwright. The page and its server share the machine with the broker.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import threading
import time

from confluent_kafka import Producer
from playwright.sync_api import sync_playwright

import fencepost
from fencepost.client.admin import NewTopic, create_topics
from fencepost.client.cluster import Cluster, Coordinates

INIT_PRODUCER_ID = 22
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking")
TOPIC = "many"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--ids", type=int, default=10_000)
    parser.add_argument("--partitions", type=int, default=1_000)
    parser.add_argument("--seconds", type=float, default=20.0)
    given = parser.parse_args()
    with fencepost.Broker() as broker:
        _fill(broker.bootstrap_servers, given.ids, given.partitions)
        over = threading.Event()
        worker = threading.Thread(target=_commit, args=(broker.bootstrap_servers, given.partitions, over), daemon=True)
        worker.start()
        command = [sys.executable, "-m", "fencepost.cli.main", "console", "-b", broker.bootstrap_servers]
        server = subprocess.Popen([*command, "--listen", "127.0.0.1:0"], stdout=subprocess.PIPE, text=True)
        try:
            url = (server.stdout.readline() if server.stdout else "").removeprefix("console on ").strip()
            time.sleep(5)  # a console that has just started has nothing to show
            _measure(url, server.pid, given.seconds)
        finally:
            over.set()
            worker.join(30)
            server.terminate()
            server.wait(10)


def _fill(bootstrap: str, ids: int, partitions: int) -> None:
    with Cluster(bootstrap) as cluster:
        create_topics(cluster, {TOPIC: NewTopic(partitions)})
        for number in range(ids):
            fields = {"transactional_id": f"service-{number:05d}", "transaction_timeout_ms": 60_000}
            fields |= {"producer_id": -1, "producer_epoch": -1}
            cluster.call_coordinator(
                Coordinates.TRANSACTION, f"service-{number:05d}", INIT_PRODUCER_ID, fields, what="an id"
            )


def _commit(bootstrap: str, partitions: int, over: threading.Event) -> None:
    producers = [Producer({"bootstrap.servers": bootstrap, "transactional.id": f"service-{n:05d}"}) for n in range(4)]
    for producer in producers:
        producer.init_transactions(60)
    number = 0
    while not over.wait(0.01):
        producer = producers[number % len(producers)]
        producer.begin_transaction()
        producer.produce(TOPIC, b"x" * 100, partition=number % partitions)
        producer.commit_transaction(60)
        number += 1


def _measure(url: str, server: int, seconds: float) -> None:
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=shutil.which("chromium"), args=list(FLAGS))
        head = ("view", "first paint", "rows after", "script p50", "script max", "updates")
        print("{:14} {:>12} {:>12} {:>12} {:>12} {:>8}".format(*head))
        for view in ("transactions", "topics", "groups", f"partition?topic={TOPIC}&partition=0"):
            tab = browser.new_page(viewport={"width": 1280, "height": 820})
            began = time.monotonic()
            tab.goto(f"{url}#/{view}")
            tab.locator(".tr[data-key], canvas.strip, .empty:not(.loading)").first.wait_for()
            rows_ms = (time.monotonic() - began) * 1000
            tab.wait_for_timeout(seconds * 1000 / 4)
            paint = tab.evaluate("() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime")
            took = tab.evaluate("() => performance.getEntriesByName('update').map(each => each.duration)")
            middle, most = (statistics.median(took), max(took)) if took else (0, 0)
            name = view.partition("?")[0]
            print(f"{name:14} {paint:9.0f} ms {rows_ms:9.0f} ms {middle:9.1f} ms {most:9.1f} ms {len(took):8}")
            tab.close()
        browser.close()
    print(f"the console's server: {_memory_mb(server):.0f} MB, {_cpu_s(server):.0f} s of CPU so far")


def _memory_mb(pid: int) -> float:
    with open(f"/proc/{pid}/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def _cpu_s(pid: int) -> float:
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
