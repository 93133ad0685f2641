"""What the clients of a load ask."""

from __future__ import annotations

from kvdoctor.lab.load import clients
from kvdoctor.lab.tokenizer import WORDS
from kvdoctor.lab.wants import Group, Wants


def prompts(group, count, seed=1):
    """The first prompts of each client."""
    wants = Wants("http://127.0.0.1:1", "lab", seed, (group,))
    return [[client.prompt().split() for _ in range(count)] for client in clients(wants)]


def test_prompts_share_their_prefix_and_no_tail():
    ((one, two),) = prompts(Group(clients=1, prefix=50, tail=(10, 10)), 2)
    assert one[:50] == two[:50]
    assert one[50:] != two[50:]


def test_without_prefixes_prompts_share_nothing():
    ((one, two),) = prompts(Group(clients=1, prefixes=0, prefix=50), 2)
    assert one[:50] != two[:50]


def test_in_turn_every_prefix_comes_once_a_round_and_clients_begin_apart():
    first, second = prompts(Group(clients=2, prefixes=4, prefix=5, in_turn=True), 4)
    heads = [tuple(prompt[:5]) for prompt in first]
    assert len(set(heads)) == 4
    assert [tuple(prompt[:5]) for prompt in second] == heads[2:] + heads[:2]


def test_a_salted_prompt_differs_in_its_first_word_alone():
    ((one, two),) = prompts(Group(clients=1, prefix=20, salted_after_s=0.0), 2)
    assert one[0] not in WORDS
    assert one[0] != two[0]
    assert one[1:21] == two[1:21]


def test_the_seed_makes_the_prompts():
    group = Group(clients=2, prefix=10)
    assert prompts(group, 2) == prompts(group, 2)
    assert prompts(group, 2) != prompts(group, 2, seed=2)
