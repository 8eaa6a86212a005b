"""What every bench shares: the account of CPU, charts, and the page with the results."""

import os
import re
import subprocess
import sys
import time
from xml.etree import ElementTree

import pytest

from bench.growth.__main__ import CURVES, FAMILIES, QUICK, chosen
from bench.growth.show import exponent
from bench.harness import chart, page
from bench.harness.process import TICKS_PER_SECOND, CompilerAccount, CpuAccount, Stat, Totals, cpu_by_kind
from bench.harness.report import Report, middle, spread

SVG = "{http://www.w3.org/2000/svg}"
LINE = "42 (java (x) y) S 1 42 42 0 -1 4194304 9 9 0 0 300 200 40 10 20 0 33 0 1 1 777 0 0"


def stat(name, own, of_children=0):
    return Stat(name, own * TICKS_PER_SECOND, 0, of_children * TICKS_PER_SECOND, 0, 1)


def test_a_line_of_proc_is_read_behind_the_name():
    assert Stat.parse(LINE) == Stat("java (x) y", 300, 200, 40, 10, 777)


def test_cpu_is_that_of_the_jvm_and_of_its_workers_even_if_they_have_ended():
    driver, jvm, daemon, worker = stat("python", 1), stat("java", 10, 2), stat("python3", 4, 8), stat("python3", 16)
    assert cpu_by_kind("client", [driver, jvm, daemon, worker]) == {"JVM": 10, "Python": 1 + 2 + 4 + 8 + 16}


def test_cpu_of_a_broker_is_its_own_whatever_it_is_written_in():
    assert cpu_by_kind("broker", [stat("java", 5, 1)]) == {"broker": 6}
    assert cpu_by_kind("broker", [stat("fencepost", 5), stat("python", 2)]) == {"broker": 7}


def test_what_an_ended_process_used_is_kept_and_what_others_use_from_then_on_is_added():
    totals = Totals()
    assert totals.add({"JVM": 4.0, "Python": 10.0}) == {"JVM": 4.0, "Python": 10.0}
    assert totals.would_fall({"JVM": 5.0, "Python": 2.0})
    assert totals.add({"JVM": 5.0, "Python": 2.0}) == {"JVM": 5.0, "Python": 10.0}
    assert totals.add({"JVM": 5.0, "Python": 3.5}) == {"JVM": 5.0, "Python": 11.5}
    assert totals.add({}) == {"JVM": 5.0, "Python": 11.5}


def test_a_process_that_works_is_seen_to_work():
    busy = [sys.executable, "-c", "import time\nprint(flush=True)\nwhile time.process_time() < 30: pass"]
    with subprocess.Popen(busy, stdout=subprocess.PIPE) as process:
        try:
            process.stdout.readline()
            account = CpuAccount({"client": process.pid, "broker": os.getpid()})
            before = account.look()["Python"]
            deadline_s = time.monotonic() + 60
            while account.look()["Python"] < before + 0.2:
                assert time.monotonic() < deadline_s
                time.sleep(0.02)
            at_last = account.look()["Python"]
        finally:
            process.kill()
        process.wait()
        assert account.look()["Python"] >= at_last  # it has ended, and is not forgotten


#: A thread with the name of a compiler works, and ends; then another one without such a name works.
COMPILER = """
import threading, time
from pathlib import Path

def work(name):
    Path(f"/proc/self/task/{threading.get_native_id()}/comm").write_text(name)
    print(name, flush=True)
    input()
    began = time.thread_time()
    while time.thread_time() < began + 0.1: pass
    print("done", flush=True)
    input()

for name in ("C2 CompilerThre", "Executor task l"):
    each = threading.Thread(target=work, args=(name,))
    each.start(); each.join()
"""


def test_compilers_are_known_by_their_threads_and_not_forgotten_when_these_end():
    with subprocess.Popen([sys.executable, "-c", COMPILER], stdin=-1, stdout=-1, text=True, bufsize=1) as process:
        account, seen = CompilerAccount(process.pid), []
        account.FIND_EVERY_S = 0.0
        for _ in range(2):
            for _ in ("its name", "done"):
                process.stdout.readline()
                seen.append(account.look())
                process.stdin.write("\n")
        process.stdin.close()
    assert seen[0] < 0.05
    assert seen[1] >= 0.09
    assert seen[3] == seen[2] == seen[1]


def test_a_line_chart_is_well_formed_and_has_a_point_for_each_number():
    made = chart.lines("Time & size", "records", "ms", {"a <b>": [(1, 10), (10, 20)], "c": [(1, 5), (100, 50)]})
    root = ElementTree.fromstring(made)
    assert len(root.findall(f"{SVG}polyline")) == 2
    assert len(root.findall(f"{SVG}circle")) == 4
    assert {"a <b>", "c", "Time & size", "records", "ms", "10", "100"} <= {
        text.text for text in root.iter(f"{SVG}text")
    }


@pytest.mark.parametrize("log_y", [False, True])
def test_more_is_higher_and_further_right(log_y):
    made = chart.lines("t", "x", "y", {"a": [(1, 1), (10, 50), (1000, 900)]}, log_y=log_y)
    circles = [(float(c.get("cx")), float(c.get("cy"))) for c in ElementTree.fromstring(made).iter(f"{SVG}circle")]
    assert circles == sorted(circles)
    assert [y for _, y in circles] == sorted((y for _, y in circles), reverse=True)
    assert all(0 < x < chart.WIDTH and 0 < y < chart.HEIGHT for x, y in circles)


def test_bars_are_as_long_as_their_numbers():
    made = chart.bars("Rates", "per second", {"one": {"a": 100.0, "b": 50.0}, "two": {"a": 25.0}})
    bars = [bar for bar in ElementTree.fromstring(made).findall(f"{SVG}rect") if bar.get("rx")]
    lengths = [float(bar.get("width")) for bar in bars]
    assert lengths == [pytest.approx(lengths[0] * share) for share in (1, 0.5, 0.25)]
    assert bars[0].get("fill") == bars[2].get("fill") != bars[1].get("fill")


def test_a_chart_of_nothing_is_refused():
    for draw in (lambda: chart.lines("t", "x", "y", {}), lambda: chart.bars("t", "u", {})):
        with pytest.raises(ValueError, match="nothing to draw"):
            draw()


@pytest.mark.parametrize("most", [0.03, 1, 1.1, 7, 99, 100, 123_456])
def test_ticks_are_few_and_reach_the_top(most):
    ticks = chart.linear_ticks(most)
    assert ticks[0] == 0
    assert ticks[-1] >= most * 0.999999
    assert 3 <= len(ticks) <= 8


def test_a_section_is_replaced_and_the_rest_of_the_page_stays():
    before = "# Page\n<!-- bench shop -->\nold\n<!-- end shop -->\nmiddle\n<!-- bench state -->\n<!-- end state -->\n"
    after = page.with_section(before, "shop", "new\n\\1 line\n")
    assert after == before.replace("old\n", "new\n\\1 line\n")
    assert page.with_section(after, "state", "x") == after.replace("state -->\n<!--", "state -->\nx\n<!--")


def test_a_page_without_the_section_is_an_error():
    with pytest.raises(page.NoSuchSection, match="'totals'"):
        page.with_section("# Page\n", "totals", "text")


def test_results_go_into_their_sections_with_their_plots(tmp_path, monkeypatch):
    monkeypatch.setattr(page, "PAGE", tmp_path / "page.md")
    monkeypatch.setattr(page, "IMAGES", tmp_path)
    (tmp_path / "page.md").write_text("<!-- bench shop -->\nold\n<!-- end shop -->\n")
    report = Report("spark", "Spark", ["on Tuesday"])
    report.table("The shop", ["system", "rate"], [["ours", 5.0]], section="shop", plots={"shop": "<svg/>"})
    report.table("Another", ["x"], [[1]])
    report.write()
    text = (tmp_path / "page.md").read_text()
    assert "![The shop](img/bench-shop.svg)" in text
    assert "| ours   | 5.00 |" in text
    assert "on Tuesday" in text
    assert "old" not in text
    assert "Another" not in text
    assert (tmp_path / "bench-shop.svg").read_text() == "<svg/>"


def test_the_middle_of_a_spread_can_be_read_back():
    assert middle(spread([1.0, 2.0, 30.0])) == 2
    assert middle(spread([78_300.0])) == 78_300
    assert middle(None) == 0


def test_the_page_has_every_section_that_a_bench_writes():
    sources = [path.read_text() for path in (page.ROOT / "bench").rglob("*.py")]
    written = {name for text in sources for name in re.findall(r'section="([a-z-]+)"', text)}
    there = set(re.findall(r"<!-- bench ([a-z-]+) -->", page.PAGE.read_text()))
    assert written | {f"growth-{name}" for name in CURVES} == there


def test_every_curve_has_quick_points_and_a_family_names_curves():
    assert QUICK.keys() == CURVES.keys()
    assert {name for names in FAMILIES.values() for name in names} <= CURVES.keys()
    assert chosen([]) == list(CURVES)
    assert chosen(["commit", "groups", "commit-open"]) == [*FAMILIES["commit"], "groups"]


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0, 2.0])
def test_the_exponent_is_the_slope_of_the_upper_half(power):
    points = [(1.0, 5.0), (10.0, 5.0), (100.0, 5.0 * 10**power), (1000.0, 5.0 * 100**power)]
    assert exponent(points) == pytest.approx(power)
    assert exponent([(2.0, 3.0), (20.0, 3.0 * 10**power)]) == pytest.approx(power)


def test_one_point_and_nothing_have_no_slope():
    assert exponent([(5.0, 5.0)]) is None
    assert exponent([]) is None
    assert exponent([(1.0, 5.0), (10.0, 0.0)]) is None
