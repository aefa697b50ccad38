"""When silence means that nobody is there: an answer is due once the question has arrived, and not before."""

import asyncio

import pytest
import uvloop

from firelane.overlay.paths.life import Life, acked_bytes, queued_bytes


def test_an_answer_is_due_from_when_something_was_heard_last():
    life = Life(0.0)
    life.asked(2)
    assert life.silent_s(1.5, acked=2) == pytest.approx(1.5)
    life.heard(1.6)
    assert life.silent_s(2.0, acked=2) == pytest.approx(0.4)


def test_a_question_that_waits_behind_much_else_is_waited_for_as_long_as_that_moves():
    life = Life(0.0)
    life.asked(1_000_000)
    for second in range(1, 10):
        assert life.silent_s(float(second), acked=100_000 * second) == 0
        life.asked(2_000_000)  # later ones do not count
    assert life.silent_s(12.0, acked=1_100_000) == pytest.approx(3.0)  # the first one came there after 9


def test_what_does_not_move_is_dead_though_the_question_has_not_arrived():
    life = Life(0.0)
    life.asked(1_000_000)
    assert life.silent_s(1.0, acked=400_000) == 0
    assert life.silent_s(3.5, acked=400_000) == pytest.approx(2.5)


def test_a_kernel_that_takes_questions_for_somebody_who_is_asleep_is_no_sign_of_life():
    life = Life(0.0)
    for tick in range(1, 7):
        life.silent_s(tick / 2, acked=2 * (tick - 1))
        life.asked(2 * tick)
    assert life.silent_s(3.5, acked=14) == pytest.approx(3.5)


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_of_a_connection_that_was_closed_meanwhile_nothing_is_known(loop):
    async def story():
        async def accept(reader, writer):
            await reader.read()
            writer.close()

        async with await asyncio.start_server(accept, "127.0.0.1", 0) as server:
            _, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            socket_ = writer.get_extra_info("socket")
            writer.close()
            await writer.wait_closed()
            assert (acked_bytes(socket_), queued_bytes(socket_)) == (0, 0)

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(story())
