"""The console's views in a real browser, on a cluster where things happen: commits, aborts, a transaction that hangs,
hostile records, a broker that is killed."""

import json
import re
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Producer

from fencepost.lab.kit.servers import Ours
from tests import logins
from tests.conftest import MakeTopic, unique
from tests.console.browser import filtered, go, row
from tests.console.web import Page, make_log, opened
from tests.observe import stuck

HOSTILE = '<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>\'"&lt;{{7*7}}'


@pytest.fixture(scope="module", autouse=True)
def crowd(bootstrap: str, topic: MakeTopic) -> None:
    """More groups with lag than a screen has rows, as in a cluster that others use, too."""
    name = topic(prefix="crowd")
    stuck.write(bootstrap, name, *(str(number) for number in range(100)))
    for number in range(50):
        stuck.set_offset(bootstrap, f"{name}-{number}", name, 0)


@pytest.fixture(scope="module")
def busy(bootstrap: str, topic: MakeTopic) -> Iterator[str]:
    """A topic into which a transactional producer commits, and sometimes aborts, all the time: its name is its id."""
    name = topic(2, prefix="busy")
    over = threading.Event()

    def work() -> None:
        producer = Producer({**logins.confluent(bootstrap), "transactional.id": name, "linger.ms": 0})
        producer.init_transactions(30)
        number = 0
        while not over.wait(0.05):
            number += 1
            producer.begin_transaction()
            for partition in (0, 1):
                producer.produce(name, json.dumps({"n": number, "of": "busy"}), key=f"k{number}", partition=partition)
            producer.flush()
            (producer.abort_transaction if number % 4 == 0 else producer.commit_transaction)(30)

    worker = threading.Thread(target=work, daemon=True)
    worker.start()
    yield name
    over.set()
    worker.join(30)


def test_transactions_are_live_and_tell_their_story(tab: Any, page: Page, busy: str):
    go(tab, page, "transactions")
    filtered(tab, busy).wait_for()
    tab.wait_for_function("() => Number(document.querySelectorAll('.figure b')[2].textContent) > 0")
    tab.get_by_text("live", exact=True).wait_for()
    tab.get_by_label("Filter").fill("")
    tab.keyboard.press("/")
    tab.keyboard.type("no such id")
    tab.get_by_text("Nothing matches.").wait_for()
    filtered(tab, busy).click()
    tab.get_by_text("every partition has its marker").first.wait_for()
    tab.get_by_role("button", name="Show all that it wrote").click()
    parts = tab.locator(".drawer .part")
    parts.nth(1).wait_for()
    assert parts.count() == 2 and busy in parts.first.inner_text()
    tab.keyboard.press("Escape")
    tab.locator(".drawer").wait_for(state="detached")


def test_an_update_takes_no_click_no_focus_and_no_selection_away(tab: Any, page: Page, busy: str):
    go(tab, page, "transactions")
    filtered(tab, busy).hover()
    tab.evaluate("key => getSelection().selectAllChildren(document.querySelector(`[data-key='${key}'] .mono`))", busy)
    tab.get_by_label("Filter").focus()
    before = updates(tab)
    tab.wait_for_function(f"() => ({UPDATES}) > {before + 4}")
    assert tab.evaluate("() => getSelection().toString()") == busy
    assert tab.evaluate("() => document.activeElement.ariaLabel") == "Filter"
    tab.evaluate("() => getSelection().removeAllRanges()")  # what is selected would be dragged
    tab.mouse.down()
    before = updates(tab)
    tab.wait_for_function(f"() => ({UPDATES}) > {before + 4}")
    tab.mouse.up()
    tab.get_by_text("Coordinator").wait_for()


UPDATES = "performance.getEntriesByName('update').length"


def updates(tab: Any) -> int:
    return int(tab.evaluate(f"() => {UPDATES}"))


def test_a_tab_that_nobody_sees_lets_go_of_its_stream(tab: Any, page: Page):
    """Browsers open six connections to a host, for all tabs together: the seventh tab would not load."""
    go(tab, page, "topics")
    tab.get_by_text("live", exact=True).wait_for()
    hide = """isHidden => {
        Object.defineProperty(document, 'hidden', {get: () => isHidden, configurable: true});
        document.dispatchEvent(new Event('visibilitychange'));
    }"""
    with tab.expect_event("requestfailed", lambda asked: "/api/events" in asked.url):
        tab.evaluate(hide, True)
    with tab.expect_request("**/api/events*"):
        tab.evaluate(hide, False)
    tab.get_by_text("live", exact=True).wait_for()


def test_json_is_shown_in_lines_and_nothing_else_changes(tab: Any, page: Page, bootstrap: str, topic: MakeTopic):
    name = topic()
    stuck.write(bootstrap, name, '{"id":12345678901234567890,"price":1.10,"tags":["[",{}],"none":[]}')
    go(tab, page, f"records?topic={name}&partition=0&start=0")
    row(tab, "0").click()
    lines = ["{", '  "id": 12345678901234567890,', '  "price": 1.10,', '  "tags": [', '    "[",', "    {}", "  ],"]
    assert tab.locator(".record pre").last.inner_text().splitlines() == [*lines, '  "none": []', "}"]


def test_home_and_zoom_do_not_jump_to_the_end_of_a_long_log(tab: Any, page: Page, bootstrap: str, topic: MakeTopic):
    name = topic()
    producer = Producer({**logins.confluent(bootstrap), "batch.num.messages": 50})
    for number in range(2_000):
        producer.produce(name, str(number))
    producer.flush()
    go(tab, page, f"partition?topic={name}&partition=0")
    tab.get_by_text("2,000, the end").wait_for()
    tab.locator("canvas.strip").focus()
    for key in (*"-" * 12, "Home", *"+" * 8):
        tab.keyboard.press(key)
    tab.locator('canvas.strip:not([data-batches="0"])').wait_for()
    tab.keyboard.press("]")
    first = int(tab.locator(".strip-note").inner_text().split()[1].replace(",", ""))
    assert first < 1_500  # the middle of what was seen before


def test_a_log_that_rests_is_drawn_and_asked_for_rarely(tab: Any, page: Page, log_topic: str):
    tab.add_init_script(COUNT_FRAMES)
    asked: list[str] = []
    tab.on("request", lambda request: asked.append(request.url.partition("?")[0].rpartition("/")[2]))
    go(tab, page, f"partition?topic={log_topic}&partition=0")
    tab.locator('canvas.strip[data-batches="7"]').wait_for()
    asked.clear()
    before = tab.evaluate("() => drawn")
    for _ in range(3):  # it asks for the bounds every second
        with tab.expect_request("**/api/partition?*"):
            pass
    assert asked.count("strip") <= 4 and tab.evaluate("() => drawn") - before < 60
    go(tab, page, "pipelines")
    before, rounds = tab.evaluate("() => drawn"), updates(tab)
    tab.wait_for_function(f"() => ({UPDATES}) > {rounds + 4}", polling=100)  # not with every frame
    assert tab.evaluate("() => drawn") - before < 30  # nothing is drawn that nobody sees


COUNT_FRAMES = """
    window.drawn = 0;
    const real = window.requestAnimationFrame.bind(window);
    window.requestAnimationFrame = act => { window.drawn += 1; return real(act); };
"""


def test_records_are_paged_back_from_the_end(tab: Any, page: Page, bootstrap: str, topic: MakeTopic):
    name = topic()
    stuck.write(bootstrap, name, *map(str, range(800)))
    go(tab, page, f"records?topic={name}&partition=0")
    row(tab, "799").wait_for()  # the last are in sight
    for first in ("100", "0"):
        tab.get_by_role("button", name="Earlier").click()
        row(tab, first).wait_for()
    tab.get_by_role("button", name="Earlier").wait_for(state="hidden")


def test_a_partition_is_a_strip_that_can_be_walked(tab: Any, page: Page, log_topic: str):
    go(tab, page, f"partition?topic={log_topic}&partition=0")
    tab.get_by_text("before the end").wait_for()
    tab.locator('canvas.strip[data-batches="7"]').focus()
    tab.keyboard.press("Home")
    seen = []
    for _ in range(7):
        tab.keyboard.press("]")
        seen.append(tab.locator(".strip-note").inner_text())
    kinds = [re.search(r"(committed|aborted|open|plain|commit marker|abort marker)", each) for each in seen]
    assert [each and each[1] for each in kinds] == [
        "committed", "commit marker", "plain", "aborted", "abort marker", "open", "plain",
    ]  # fmt: skip
    colours = strip_colours(tab)
    assert len(colours) > 5  # something is drawn
    tab.keyboard.press("+")
    tab.locator(".detail").get_by_text("CRC-32C").wait_for()
    tab.get_by_text("behind").first.wait_for()


def test_what_is_said_of_a_log_is_as_new_as_its_picture(tab: Any, page: Page, log_topic: str):
    def be_late(route: Any) -> None:
        """An answer from before the last record was written, when a transaction was open that has ended since."""
        answer = route.fetch()
        found = answer.json()
        found["bounds"]["end"] -= 1
        found["bounds"]["stable"] -= 1
        found["open"].append({"id": "ended-since", "producer": 0, "open_since": found["bounds"]["stable"]})
        route.fulfill(response=answer, json=found)

    tab.route("**/api/partition?*", be_late)
    go(tab, page, f"partition?topic={log_topic}&partition=0")
    tab.locator(".about").get_by_text(re.compile(r"^0 to 7$")).wait_for()
    tab.wait_for_function("() => !document.querySelector('.about').innerText.includes('ended-since')")
    tab.unroute("**/api/partition?*")


def strip_colours(tab: Any) -> list[str]:
    return list(
        tab.evaluate(
            """() => {
        const canvas = document.querySelector('canvas.strip');
        const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
        const found = new Set();
        for (let at = 0; at < data.length; at += 4)
            if (data[at + 3] === 255) found.add(data.slice(at, at + 3).join());
        return [...found];
    }"""
        )
    )


@pytest.fixture(scope="module")
def log_topic(page: Page, bootstrap: str, topic: MakeTopic) -> Iterator[str]:
    name = topic(prefix="log")
    producer = make_log(page, bootstrap, name)
    yield name
    producer.abort_transaction(30)


@pytest.mark.thorough
def test_what_a_reader_sees_can_be_switched(tab: Any, page: Page, log_topic: str):
    go(tab, page, f"partition?topic={log_topic}&partition=0")
    tab.get_by_text("before the end").wait_for()
    tab.wait_for_function("() => document.querySelector('canvas.strip').toDataURL().length > 3000")
    tab.evaluate("() => { window.before = document.querySelector('canvas.strip').toDataURL(); }")
    tab.get_by_role("radio", name="read_committed").click()
    tab.wait_for_function("() => document.querySelector('canvas.strip').toDataURL() !== window.before")


def test_records_have_their_outcome_and_lead_to_the_transaction(tab: Any, page: Page, log_topic: str):
    go(tab, page, f"records?topic={log_topic}&partition=0&start=0")
    row(tab, "0").wait_for()
    kinds = [each.inner_text() for each in tab.locator(".rows .chip").all()]
    assert kinds == ["committed", "committed", "plain", "aborted", "open", "plain"]
    tab.get_by_label("What a reader sees").select_option("read_committed")
    tab.get_by_role("button", name="Read", exact=True).click()
    tab.wait_for_function("() => document.querySelectorAll('.rows .tr').length === 3")
    row(tab, "0").click()
    tab.get_by_role("button", name="Show the whole transaction").click()
    tab.get_by_role("dialog", name="The whole transaction").get_by_text("2 records at").wait_for()
    with tab.expect_download() as download:
        tab.keyboard.press("Escape")
        tab.get_by_text("Download").click()
    assert download.value.suggested_filename == f"{log_topic}-0.jsonl"


def test_nothing_in_a_record_becomes_markup(tab: Any, page: Page, bootstrap: str, topic: MakeTopic):
    name = topic(prefix="hostile")
    producer = Producer({**logins.confluent(bootstrap), "transactional.id": unique(HOSTILE), "linger.ms": 0})
    producer.init_transactions(30)
    producer.begin_transaction()
    headers = [(HOSTILE, HOSTILE.encode())]
    producer.produce(name, json.dumps({"v": HOSTILE}), key=HOSTILE, headers=headers, partition=0)
    producer.produce(name, HOSTILE.encode(), key=b"\xff<b>", partition=0)
    producer.flush()
    stuck.set_offset(bootstrap, unique(HOSTILE), name, 0)
    for view in ("transactions", f"records?topic={name}&partition=0&start=0", f"partition?topic={name}&partition=0",
                 f"why?topic={name}", "groups"):  # fmt: skip
        go(tab, page, view)
        if view in ("transactions", "groups"):
            tab.get_by_label("Filter").fill(HOSTILE)
        said = "before the end" if view.startswith("partition") else "onerror"
        tab.get_by_text(said).first.wait_for(state="attached")
    go(tab, page, f"records?topic={name}&partition=0&start=0")
    row(tab, "0").click()
    tab.get_by_text("Headers").last.wait_for()
    assert tab.evaluate("() => window.hacked") is None
    assert tab.locator("img[src=x]").count() == 0
    producer.abort_transaction(30)


def test_groups_topics_and_pipelines_are_shown(tab: Any, page: Page, bootstrap: str, log_topic: str):
    group = unique("reader")
    stuck.set_offset(bootstrap, group, log_topic, 0)
    go(tab, page, "groups")
    filtered(tab, group).wait_for()
    assert "3" in row(tab, group).inner_text().split()
    row(tab, group).click()
    tab.get_by_text("at 0 of").wait_for()
    go(tab, page, "topics")
    filtered(tab, log_topic).click()
    tab.get_by_text("cleanup.policy").wait_for()
    go(tab, page, "pipelines")
    tab.locator(".tile, .empty").first.wait_for()


@pytest.mark.thorough
def test_a_hanging_transaction_is_pictured_and_aborted(tab: Any, trusting: str):
    stuck.write(trusting, "stuck", "first")
    stuck.leave_hanging(trusting, "stuck")
    stuck.write(trusting, "stuck", "waits")
    stuck.set_offset(trusting, "reader", "stuck", 1)
    with opened(trusting, "--allow-changes") as page:
        go(tab, page, "why?topic=stuck")
        tab.get_by_text("a HANGING transaction").wait_for()
        tab.get_by_text("reader waits here").wait_for()
        tab.get_by_role("button", name="Abort …").click()
        tab.get_by_text("This undoes").wait_for()
        tab.get_by_role("button", name="Abort it").click()
        tab.get_by_text("readers go on").wait_for()
        tab.get_by_role("button", name="Close").click()
        tab.get_by_text("nothing holds stuck").wait_for()


@pytest.mark.thorough
def test_a_killed_broker_is_shown_and_its_return_noticed(tab: Any, start_broker: Callable[..., Ours]):
    broker = start_broker()
    stuck.write(broker.bootstrap, "here", "first")
    with opened(broker.bootstrap) as page:
        go(tab, page, "topics")
        filtered(tab, "here").wait_for()
        broker.kill()
        tab.get_by_text(re.compile("stale, .* old")).wait_for()
        assert row(tab, "here").is_visible()  # what was known stays
        tab.locator("#banner").wait_for(state="visible")
        broker.start()
        tab.get_by_text("live", exact=True).wait_for()
        tab.locator("#banner").wait_for(state="hidden")


@pytest.mark.thorough
def test_a_broker_that_stands_still_is_noticed_before_its_requests_time_out(
    tab: Any, start_broker: Callable[..., Ours]
):
    broker = start_broker()
    with opened(broker.bootstrap) as page:
        go(tab, page, "topics")
        tab.get_by_text("live", exact=True).wait_for()
        broker.pause()
        tab.get_by_text(re.compile("waiting, .* old")).wait_for()
        broker.resume()
        tab.get_by_text("live", exact=True).wait_for()


@pytest.mark.thorough
def test_a_console_that_is_gone_is_shown_as_disconnected(tab: Any, bootstrap: str):
    with opened(bootstrap) as page:
        go(tab, page, "topics")
        tab.get_by_text("live", exact=True).wait_for()
    tab.get_by_text("disconnected").wait_for()


@pytest.mark.thorough
def test_a_token_opens_the_page(tab: Any, bootstrap: str):
    with opened(bootstrap, variables={"FENCEPOST_CONSOLE_TOKEN": "open sesame"}) as page:
        tab.goto(page.url)
        tab.get_by_label("Token").fill("wrong one")
        tab.get_by_role("button", name="Log in").click()
        tab.get_by_text("not the console's token").wait_for()
        tab.get_by_label("Token").fill("open sesame")
        tab.get_by_role("button", name="Log in").click()
        tab.get_by_role("link", name="Transactions").wait_for()


@pytest.mark.thorough
def test_a_console_that_was_started_again_asks_for_the_token(tab: Any, bootstrap: str):
    token = {"FENCEPOST_CONSOLE_TOKEN": "open sesame"}
    with opened(bootstrap, variables=token) as page:
        tab.goto(page.url)
        tab.get_by_label("Token").fill("open sesame")
        tab.get_by_role("button", name="Log in").click()
        tab.get_by_text("live", exact=True).wait_for()
    with opened(bootstrap, "--listen", page.host, variables=token):
        tab.get_by_label("Token").wait_for()


@pytest.mark.thorough
def test_a_phone_and_the_keyboard_are_enough(tab: Any, page: Page, busy: str):
    tab.set_viewport_size({"width": 380, "height": 720})
    for number in range(1, 8):
        if number == 1:
            go(tab, page, "transactions")
        else:
            tab.keyboard.press(str(number))
        tab.locator("#nav [aria-current]").wait_for()
        tab.wait_for_timeout(200)
        assert tab.evaluate("() => document.documentElement.scrollWidth <= innerWidth"), f"view {number} is too wide"
    tab.keyboard.press("?")
    tab.get_by_role("dialog", name="Keyboard").wait_for()
    tab.keyboard.press("Escape")
    tab.keyboard.press("t")
    first = tab.evaluate("() => document.documentElement.dataset.theme")
    tab.keyboard.press("t")
    assert {first, tab.evaluate("() => document.documentElement.dataset.theme")} == {"light", "dark"}
    tab.keyboard.press("1")
    filtered(tab, busy).wait_for()
    tab.locator(".scroller").focus()
    tab.keyboard.press("ArrowDown")
    tab.keyboard.press("Enter")
    tab.get_by_text("Coordinator").wait_for()
