"""Few threads for many tasks: each comes again at its tick, in order, and none is lost."""

from __future__ import annotations

import threading
from collections import Counter

from kvdoctor.crew import WORKERS, attend, shares


class Task:
    """Comes a number of times, a tick apart."""

    def __init__(self, times: int, done: Counter[int], number: int) -> None:
        self.tick = 0
        self._left, self._done, self._number = times, done, number

    def take(self) -> bool:
        """Count itself."""
        self._done[self._number] += 1
        self._left -= 1
        self.tick += 1
        return self._left > 0


def tasks(count: int, times: int) -> tuple[list[Task], Counter[int]]:
    """Tasks, and how often each was done."""
    done: Counter[int] = Counter()
    return [Task(times, done, number) for number in range(count)], done


def test_few_tasks_have_a_thread_each():
    made, _ = tasks(WORKERS, 1)
    assert [len(share.heap) for share in shares(made)] == [1] * WORKERS


def test_many_tasks_share_the_threads_and_each_is_done_as_often_as_it_comes():
    made, done = tasks(WORKERS + 200, 3)
    found = shares(made)
    assert len(found) == WORKERS
    threads = [threading.Thread(target=attend, args=(share, lambda tick: True)) for share in found]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert done == Counter(dict.fromkeys(range(WORKERS + 200), 3))


def test_the_earliest_task_is_next():
    made, _ = tasks(WORKERS + 1, 2)
    made[5].tick = -1
    share = shares(made)[0]
    entry = share.pop()
    assert entry is not None
    assert (entry[0], entry[1]) == (-1, 5)


def test_when_it_is_stopped_a_thread_leaves_the_rest_undone():
    made, done = tasks(WORKERS + 1, 2)
    share = shares(made)[0]
    attend(share, lambda tick: tick == 0)
    assert set(done.values()) == {1}
