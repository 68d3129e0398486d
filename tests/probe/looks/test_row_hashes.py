from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from perfdoctor.probe.looks.row_hashes import RowHashes

HASHES = RowHashes(torch)


def hashes(*inputs):
    found = HASHES.of_inputs((inputs, {}))
    return None if found is None else found[1]


def pictures(count=8):
    return torch.rand(count, 3, 16, 16, generator=torch.Generator().manual_seed(0))


def test_the_same_rows_have_the_same_hash_in_any_batch_and_layout():
    batch = pictures()
    plain = hashes(batch)
    assert len(set(plain)) == 8
    assert hashes(batch[[3, 1, 7]]) == [plain[3], plain[1], plain[7]]
    assert hashes(batch.to(memory_format=torch.channels_last)) == plain


@pytest.mark.parametrize("kind", [torch.float64, torch.float16, torch.bfloat16, torch.uint8, torch.int64])
def test_rows_of_any_type_are_told_apart(kind):
    batch = (200 * pictures()).to(kind)
    assert len(set(hashes(batch))) == 8
    assert hashes(batch.flip(0)) == hashes(batch)[::-1]


def test_a_changed_row_has_another_hash():
    batch = pictures()
    changed = batch.clone()
    changed[2] += 0.01
    assert [old == new for old, new in zip(hashes(batch), hashes(changed), strict=True)] == [
        row != 2 for row in range(8)
    ]


def test_a_text_is_known_again_with_other_padding_and_its_mask():
    text = torch.tensor([[5, 6, 7, 8, 9], [4, 3, 2, 6, 8]])
    padded = torch.cat([text, torch.zeros(2, 3, dtype=torch.int64)], 1)
    more = torch.tensor([[9, 8, 7, 6, 5, 4, 3, 2]])
    assert hashes(padded) == hashes(text)
    assert hashes(torch.cat([padded, more]))[:2] == hashes(text)
    assert hashes(padded, (padded != 0).long()) == hashes(text, torch.ones_like(text))


def test_a_row_with_few_values_is_not_told():
    assert hashes(torch.eye(8)) is None
    assert hashes(torch.tensor([[1, 2, 3, 4], [1, 1, 2, 2]]).float())[1] is None


def test_rows_that_are_all_alike_tell_nothing():
    assert hashes(torch.arange(16).repeat(4, 1)) is None
    assert hashes(torch.zeros(4)) is None


def test_mappings_are_read_as_well():
    batch = pictures()
    assert HASHES.of_inputs(((), {"pixels": {"values": batch}})) == (8, hashes(batch))


def test_a_result_is_read_at_the_first_place_of_a_text():
    result = torch.rand(4, 5, 32)
    row_bytes, values, _ = HASHES.of_result({"last": result}, 4)
    assert row_bytes == 5 * 32 * 4
    assert values == HASHES.of_result(result[:, :3], 4)[1]
    assert HASHES.of_result(result, 3) is None
