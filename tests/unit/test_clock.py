"""Time that a test moves by hand: what repeats, what waits, and in which order it runs."""

import asyncio

from fencepost.clock import ManualClock, Periodic, give_way, pause, within


def test_a_periodic_job_runs_at_its_interval_until_stopped_even_if_it_fails():
    clock, ran = ManualClock(), []

    def job():
        ran.append(clock.now_ms() - start_ms)
        raise ZeroDivisionError

    start_ms = clock.now_ms()
    periodic = Periodic(clock, lambda: 100, job)
    periodic.start()
    clock.advance(350)
    assert ran == [100, 200, 300]
    periodic.stop()
    clock.advance(1000)
    assert len(ran) == 3


def test_a_periodic_coroutine_begins_again_after_it_has_ended_and_stopping_ends_it_half_way():
    async def scenario():
        clock, steps = ManualClock(), []

        async def job():
            steps.append("begin")
            await give_way()
            steps.append("end")

        async def settle():
            for _ in range(5):
                await give_way()

        periodic = Periodic(clock, lambda: 100, job)
        periodic.start()
        clock.advance(1000)
        await settle()
        assert steps == ["begin", "end"]
        clock.advance(100)
        await give_way()
        assert steps == ["begin", "end", "begin"]
        periodic.stop()
        await settle()
        clock.advance(1000)
        await settle()
        assert steps == ["begin", "end", "begin"]

    asyncio.run(scenario())


def test_a_pause_and_a_deadline_pass_when_the_clock_is_moved():
    async def scenario():
        clock = ManualClock()
        never = asyncio.get_running_loop().create_future()
        paused = asyncio.ensure_future(pause(clock, 50))
        in_time = asyncio.ensure_future(within(clock, 80, never))
        await give_way()
        assert clock.run_next()
        await paused
        assert not in_time.done()
        assert clock.run_next() and not clock.run_next()
        assert await in_time is False
        assert clock.now_ms() == ManualClock().now_ms() + 80

    asyncio.run(scenario())
