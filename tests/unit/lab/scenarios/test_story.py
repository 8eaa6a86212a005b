"""What is told of a scenario."""

from fencepost.lab.scenarios.story import Check, Ending, Fact, Kind, Result, Step, Story


def test_steps_are_numbered_and_everything_is_told_at_once_to_the_listener():
    heard: list[object] = []
    story = Story(heard.append)
    story.step("one")
    story.fact(Kind.LSO, "invoices-0 3 of 5", {"invoices-0": {"lso": 3, "end": 5}})
    story.step("two")
    assert story.check(True, "holds", "not shown")
    assert not story.check(False, "does not hold", 7)
    assert heard == story.items
    assert story.items[0] == Step(1, "one")
    assert story.items[2] == Step(2, "two")
    assert story.checks == [Check(True, "holds"), Check(False, "does not hold", "7")]


def test_a_result_as_json_has_the_whole_story():
    items = (Step(1, "one"), Fact(Kind.NOTE, "text"), Check(False, "holds", "it does not"))
    result = Result("zombie", 3, "A zombie", Ending.WRONG, 7, 1.26, "fencepost", items=items)
    assert result.failed
    told = result.as_dict()
    assert told["story"] == [
        {"step": 1, "text": "one"},
        {"fact": "note", "text": "text"},
        {"check": "holds", "holds": False, "seen": "it does not"},
    ]
    assert (told["ending"], told["checks"], told["failedChecks"], told["seed"]) == ("wrong", 1, 1, 7)


def test_a_skipped_scenario_has_not_failed():
    assert not Result("zombie", 3, "A zombie", Ending.SKIPPED, 7, 0, "", "not ours").failed
    assert Result("zombie", 3, "A zombie", Ending.BROKEN, 7, 0, "", "it stumbled").failed
