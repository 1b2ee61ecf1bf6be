import numpy as np

from splits import TEST, TRAIN, VALIDATION, cap_per_class, merge_keys, shuffled_rows, split_by_key


def keys_of(split, keys, which):
    return {key for key, part in zip(keys, split, strict=True) if part == which}


def test_no_key_stands_in_two_splits():
    keys = [f"font{number % 97}" for number in range(2000)]
    split = split_by_key(keys, "letters")
    parts = [keys_of(split, keys, which) for which in (TRAIN, VALIDATION, TEST)]
    assert all(parts)
    assert not parts[0] & parts[1] and not parts[0] & parts[2] and not parts[1] & parts[2]
    assert abs((split == TEST).mean() - 0.2) < 0.03
    assert abs((split == VALIDATION).sum() / (split != TEST).sum() - 0.1) < 0.03


def test_validation_is_at_most_5000():
    split = split_by_key([str(row) for row in range(100_000)], "big")
    assert (split == VALIDATION).sum() == 5000


def test_split_depends_on_keys_not_on_their_order():
    keys = [f"k{number}" for number in range(300)]
    first = dict(zip(keys, split_by_key(keys, "s"), strict=True))
    backward = keys[::-1]
    assert first == dict(zip(backward, split_by_key(backward, "s"), strict=True))
    assert first != dict(zip(keys, split_by_key(keys, "other seed"), strict=True))


def test_given_splits_stay_and_only_the_missing_one_is_drawn():
    fixed = np.repeat([TRAIN, TEST], [900, 100])
    split = split_by_key([str(row) for row in range(1000)], "s", fixed)
    assert (split[900:] == TEST).all()
    assert (split[:900] == VALIDATION).sum() == 90


def test_equal_pictures_join_their_keys():
    images = np.zeros((4, 2, 2, 3), np.uint8)
    images[2], images[3] = 1, 2
    keys = merge_keys(["open", "folder", "folder", "save"], images)
    assert keys[0] == keys[1] == keys[2] != keys[3]


def test_rows_are_shuffled_the_same_way_each_time():
    split = np.zeros(50, np.int64)
    rows = shuffled_rows(split, TRAIN, "s")
    assert sorted(rows) == list(range(50)) and list(rows) != list(range(50))
    assert (rows == shuffled_rows(split, TRAIN, "s")).all()
    assert (rows[:10] == shuffled_rows(split, TRAIN, "s", 10)).all()


def test_cap_keeps_at_most_so_many_a_class():
    labels = [0] * 50 + [1] * 5
    kept = cap_per_class(labels, [str(row) for row in range(55)], 10, "s")
    assert sum(labels[row] == 0 for row in kept) == 10 and sum(labels[row] == 1 for row in kept) == 5
