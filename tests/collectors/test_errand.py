"""Errands: never two at once, fetched once, and nobody waits for them longer than he likes."""

from __future__ import annotations

import threading

from kvdoctor.collectors.errand import Errand


def test_what_it_brings_is_fetched_once():
    numbers = iter(range(9))
    errand = Errand(lambda: next(numbers))
    assert errand.back(1.0) is None
    assert [(errand.send(), errand.back(10.0)) for _ in range(2)] == [(True, 0), (True, 1)]
    assert errand.back() is None


def test_while_it_is_away_it_is_not_sent_again_and_nobody_waits():
    gate, calls = threading.Event(), []
    errand = Errand(lambda: calls.append(gate.wait(10)) or "back")
    assert errand.send()
    assert (errand.send(), errand.back(), errand.back(0.01), errand.away) == (False, None, None, True)
    gate.set()
    assert errand.back(10.0) == "back"
    assert (calls, errand.away) == ([True], False)


def test_what_nobody_fetched_is_dropped():
    numbers, done = iter(range(9)), threading.Semaphore(0)
    errand = Errand(lambda: (next(numbers), done.release())[0])
    errand.send()
    done.acquire(timeout=10)
    while errand.away:
        pass
    errand.send()
    assert errand.back(10.0) == 1
