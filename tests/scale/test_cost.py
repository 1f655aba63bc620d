"""The cost model: what it counts, and what it refuses."""

import pytest

import remanence as rm


def test_twice_the_workers_need_half_the_time_to_learn():
    one, two = (rm.scale.plan(10**6, 256, 10, w, partitions=64, flops=1e10) for w in (1, 2))
    assert one.learn_seconds == pytest.approx(2 * two.learn_seconds)
    assert one.bytes_sent == 0 and two.bytes_sent > 0


@pytest.mark.parametrize(("partitions", "roots"), [(1, 3), (64, 3), (65, 3.5), (1024, 3.5), (1025, 4)])
def test_memory_is_the_roots_of_a_worker_and_a_partition(partitions, roots):
    found = rm.scale.plan(10**6, 4096, 10, 4, partitions=partitions, flops=1e10)
    assert found.worker_bytes == pytest.approx(roots * 8 * 4096 * 4106 + 10**6 / partitions * 4106 * 8)


def test_chains_bound_the_workers_used():
    assert rm.scale.plan(1000, 8, 2, 100, partitions=8, flops=1e9).workers_used == 8


def test_speed_is_measured_where_it_is_not_given():
    assert rm.scale.plan(1000, 50, 2, 1).seconds > 0


def test_bad_numbers_are_refused():
    for bad in ({"rows": 0}, {"workers": 0}, {"bandwidth": 0.0}, {"itemsize": 2}, {"read": -1.0}, {"flops": 0.0}):
        with pytest.raises(rm.InputError):
            rm.scale.plan(**{"rows": 10, "features": 2, "classes": 2, "workers": 1, "flops": 1e9, **bad})
