"""How long a failing instance waits before it is launched again."""

from control.back_off import BackOff


def waits(back_off: BackOff, what: str, failures: int) -> list[float]:
    """Seconds that each failure costs, looked up to a quarter of a second."""
    found, now_s = [], 0.0
    for _ in range(failures):
        back_off.failed(what, now_s)
        began_s = now_s
        while back_off.wait_s(what, now_s):
            now_s += 0.25
        found.append(now_s - began_s)
    return found


def test_every_failure_in_a_row_doubles_the_wait_up_to_a_minute() -> None:
    assert waits(BackOff(), "a", 8) == [1, 2, 4, 8, 16, 32, 60, 60]


def test_one_that_has_worked_begins_anew_and_others_do_not_wait() -> None:
    back_off = BackOff()
    assert back_off.wait_s("a", 0.0) == 0
    back_off.failed("a", 0.0)
    back_off.failed("a", 0.0)
    assert back_off.wait_s("a", 1.5) == 0.5
    assert back_off.wait_s("b", 0.0) == 0
    back_off.worked("a")
    assert back_off.wait_s("a", 0.0) == 0
    assert waits(back_off, "a", 2) == [1, 2]


def test_what_fails_for_days_goes_on_being_tried() -> None:
    back_off, now_s = BackOff(), 0.0
    for _ in range(5000):
        back_off.failed("a", now_s)
        now_s += 60
        assert back_off.wait_s("a", now_s) == 0
