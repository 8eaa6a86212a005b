"""The plan is a function of the seed."""

from fencepost.lab.chaos.plan import Family, Fault, available_faults, clients, schedule

ALL = available_faults(frozenset(Family), owns_broker=True)


def test_a_seed_gives_the_same_faults_every_time():
    assert schedule(7, 300, ALL) == schedule(7, 300, ALL)
    assert schedule(7, 300, ALL) != schedule(8, 300, ALL)


def test_a_longer_run_begins_like_a_shorter_one():
    short = schedule(7, 60, ALL)
    assert schedule(7, 600, ALL)[: len(short)] == short


def test_about_a_quarter_of_the_steps_is_quiet():
    steps = schedule(1, 20_000, ALL)
    quiet = sum(step.fault is Fault.NONE for step in steps)
    assert 0.2 < quiet / len(steps) < 0.3


def test_every_fault_comes_up_in_a_long_run():
    assert {step.fault for step in schedule(1, 3_000, ALL)} == set(Fault)


def test_a_broker_that_is_not_ours_is_left_alone():
    faults = available_faults(frozenset(Family), owns_broker=False)
    assert Fault.KILL_CLIENTS in faults and Fault.CUT in faults
    assert not any(step.fault.needs_broker for step in schedule(3, 3_000, faults))


def test_only_the_families_that_were_chosen_come_up():
    faults = available_faults(frozenset({Family.NET}), owns_broker=True)
    assert {step.fault.family for step in schedule(3, 1_000, faults)} == {Family.NET, None}


def test_everybody_has_a_name_of_its_own():
    specs = clients(1, "localhost:9092", "somewhere", "")
    assert len({spec.name for spec in specs}) == len(specs)
