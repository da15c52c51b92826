"""What the connector remembers, in the order in which vLLM asks and says."""

from agents.messages.to_scheduler import Leg
from agents.vllm_engine.exchange import Reserved
from agents.vllm_engine.kv_book import KvBook, Load, StepOrders

BLOCKS = ([3, 5],)


def decoding(tokens: int = 41) -> KvBook:
    book = KvBook(16, (0,))
    book.begin("7", "7-x", Leg.DECODE, tokens)
    return book


def test_a_prefill_leg_that_ends_by_its_length_keeps_its_blocks_until_released() -> None:
    book = KvBook(16, (0,))
    book.begin("7", "7-x", Leg.PREFILL, 40)
    assert (book.coming("7-x", 0), book.holding, book.kept("7")) == (0, 0, None)
    assert book.finished("7-x", BLOCKS, by_length=True)
    assert (book.kept("7"), book.holding, book.is_due) == ((BLOCKS, 40), 1, False)
    book.release("7")
    assert (book.kept("7"), book.holding, book.is_due) == (None, 0, True)
    assert book.take_orders() == StepOrders(sent=frozenset({"7-x"}))
    assert not book.is_due
    book.release("7")
    assert not book.is_due


def test_a_prefill_leg_that_is_aborted_or_stops_keeps_nothing() -> None:
    book = KvBook(16, (0,))
    book.begin("7", "7-x", Leg.PREFILL, 40)
    assert not book.finished("7-x", BLOCKS, by_length=False)
    assert (book.kept("7"), book.is_due) == (None, False)


def test_a_decode_leg_waits_for_all_but_its_last_token_and_is_loaded_in_one_step() -> None:
    book = decoding()
    assert book.coming("7-x", 0) == 40
    assert book.coming("7-x", 32) == 8, "asked again where there was no room"
    book.allocated("7-x", BLOCKS, 8)
    assert book.take_news() == (Reserved("7", is_here=False),)
    assert (book.holding, book.is_due) == (1, False)
    book.bring("7", "kv")
    assert book.is_due
    assert book.take_orders() == StepOrders((Load("7-x", BLOCKS, 32, "kv"),), received=frozenset({"7-x"}))
    assert (book.holding, book.is_due, book.take_news()) == (0, False, ())
    assert book.coming("7-x", 0) == 0, "preempted, it is computed as any other"
    book.allocated("7-x", BLOCKS, 0)
    assert book.take_news() == ()
    assert not book.finished("7-x", BLOCKS, by_length=True)


def test_a_decode_leg_that_the_prefix_cache_has_needs_nothing() -> None:
    book = decoding()
    assert book.coming("7-x", 40) == 0
    book.allocated("7-x", BLOCKS, 0)
    assert book.take_news() == (Reserved("7", is_here=True),)
    assert book.holding == 0
    book.bring("7", "kv")
    assert not book.is_due


def test_a_decode_leg_that_is_aborted_gives_its_blocks_back_by_word_of_a_step() -> None:
    for is_brought in (False, True):
        book = decoding()
        book.allocated("7-x", BLOCKS, 40)
        if is_brought:
            book.bring("7", "kv")
        assert not book.finished("7-x", BLOCKS, by_length=False)
        assert book.take_orders() == StepOrders(received=frozenset({"7-x"})), "and nothing is written any more"
        book.bring("7", "late")
        assert (book.is_due, book.holding) == (False, 0)


def test_a_decode_leg_that_is_aborted_before_it_has_blocks_needs_no_step() -> None:
    book = decoding()
    assert not book.finished("7-x", (), by_length=False)
    assert not book.is_due


def test_requests_that_are_no_legs_are_nothing_to_it() -> None:
    book = KvBook(16, (0,))
    assert book.coming("1-x", 0) == 0
    book.allocated("1-x", BLOCKS, 0)
    assert not book.finished("1-x", BLOCKS, by_length=True)
    book.bring("1", "kv")
    book.release("1")
    assert (book.is_due, book.take_news()) == (False, ())


def test_blocks_that_a_window_leaves_half_written_are_not_for_the_prefix_cache() -> None:
    """Of 40 tokens a window of 20 sees those from 21 on: the second block of 16 comes in part, unless it was there."""
    blocks = ([1, 2, 3], [4, 5, 6])
    for local, expected in ((0, {5}), (16, {5}), (32, set())):
        book = KvBook(16, (0, 20))
        book.begin("7", "7-x", Leg.DECODE, 41)
        book.allocated("7-x", blocks, 40 - local)
        assert book.take_half_written("7-x") == set()
        book.bring("7", "kv")
        book.take_orders()
        assert book.take_half_written("7-x") == expected
        assert book.take_half_written("7-x") == set()
