"""CPU tensors travel as arrays do, and keep what PyTorch's own pickling keeps."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from monarch._actor.pickling import dumps, loads
from monarch.actor import ActorMesh, ProcMesh
from payload_actors import LARGE_BYTES, Keeper

if TYPE_CHECKING:
    import torch
else:
    torch = pytest.importorskip("torch")

pytestmark = pytest.mark.torch

Spawn = Callable[..., ProcMesh]
WITHIN_S = 60.0
COUNT = 100_000


def received(value: Any) -> Any:
    payload, buffers = dumps(value)
    return loads(payload, [bytearray(buffer) for buffer in buffers])


def content(tensor: torch.Tensor) -> bytes:
    """Whatever its type, as bytes."""
    return torch.empty(0, dtype=torch.uint8).set_(tensor.contiguous().untyped_storage()).numpy().tobytes()


def dtypes() -> list[torch.dtype]:
    found = {dtype for dtype in vars(torch).values() if isinstance(dtype, torch.dtype)}
    return sorted((dtype for dtype in found if not str(dtype).startswith(("torch.q", "torch.quint"))), key=str)


@pytest.fixture
def keepers(spawn_procs: Spawn) -> ActorMesh[Keeper]:
    return spawn_procs(per_host={"gpus": 2}).spawn("keepers", Keeper)


@pytest.mark.filterwarnings("ignore:.*support is experimental:UserWarning")
@pytest.mark.parametrize("count", [7, COUNT])
@pytest.mark.parametrize("dtype", dtypes(), ids=str)
def test_tensors_of_every_type_arrive_bit_for_bit(dtype: torch.dtype, count: int) -> None:
    sent = torch.empty(count, dtype=dtype)
    torch.empty(0, dtype=torch.uint8).set_(sent.untyped_storage()).random_()
    arrived = received(sent)
    assert (arrived.dtype, arrived.shape) == (sent.dtype, sent.shape)
    assert content(arrived) == content(sent)


base = torch.arange(600.0 * 500).reshape(600, 500)
views = {
    "whole": base,
    "rows": base[100:400],
    "columns": base[:, 3:7],
    "steps": base[::3, ::2],
    "transposed": base.t(),
    "permuted": base.reshape(60, 50, 100).permute(2, 0, 1),
    "expanded": base[:1].expand(300, 500),
    "scalar": torch.tensor(3.5),
    "element": base[10, 10],
    "empty": torch.empty(0, 5),
    "small": torch.arange(6.0).reshape(2, 3).t(),
    "channels last": torch.randn(4, 8, 60, 60).to(memory_format=torch.channels_last),
}


@pytest.mark.parametrize("name", views)
def test_views_keep_their_size_and_strides(name: str) -> None:
    sent = views[name]
    plain, arrived = pickle.loads(pickle.dumps(sent)), received(sent)
    assert (arrived.shape, arrived.stride(), arrived.dtype) == (plain.shape, plain.stride(), plain.dtype)
    assert torch.equal(arrived, sent)


def test_a_large_tensor_leaves_the_stream_uncopied_and_brings_only_what_it_covers() -> None:
    sent = torch.zeros(1000, 1000)
    payload, (buffer,) = dumps(sent[10:100])
    assert len(payload) < 500
    assert memoryview(buffer).nbytes == 90 * 1000 * 4
    sent[10] = 1
    assert int(loads(payload, [buffer]).sum()) == 1000


def test_tensors_that_share_memory_share_it_where_they_arrive() -> None:
    whole, rows, row, same = received([base, base[10:20], base[12], base])
    row.fill_(-1.0)
    assert torch.equal(whole[12], row)
    assert torch.equal(rows[2], row)
    assert same is whole


@pytest.mark.parametrize("order", [1, -1])
def test_tensors_that_share_memory_share_it_whichever_comes_first(order: int) -> None:
    first, second = received([base[:300], base[200:]][::order])[::order]
    first[250] = -1.0
    assert float(second[50].max()) == -1.0


def test_another_type_of_the_same_memory_shares_it() -> None:
    numbers, raw = received((torch.ones(COUNT), torch.ones(3)))
    assert numbers.untyped_storage().data_ptr() != raw.untyped_storage().data_ptr()
    sent = torch.ones(COUNT)
    numbers, raw = received((sent, sent.view(torch.uint8)[4:-4]))
    raw.zero_()
    assert float(numbers.sum()) == 2.0
    raw, numbers = received((sent.view(torch.uint8)[1:], sent))
    raw.zero_()
    assert float(numbers[1:].sum()) == 0.0


def test_parts_that_do_not_overlap_bring_no_more_than_themselves() -> None:
    sent = torch.arange(1_000_000)
    _, buffers = dumps([sent[:20_000], sent[-20_000:]])
    assert sum(memoryview(buffer).nbytes for buffer in buffers) == 2 * 20_000 * 8


@pytest.mark.parametrize("count", [3, COUNT])
def test_gradients_are_asked_for_where_they_were(count: int) -> None:
    leaf = torch.ones(count, requires_grad=True)
    for sent in (leaf, leaf * 2):
        arrived = received(sent)
        assert arrived.requires_grad
        assert arrived.is_leaf
        assert torch.equal(arrived.detach(), sent.detach())


def test_parameters_and_modules_keep_their_classes_and_ties() -> None:
    module = torch.nn.Linear(300, 300, bias=False)
    pair = torch.nn.Sequential(module, torch.nn.Linear(300, 300, bias=False))
    pair[1].weight = module.weight
    arrived = received(pair)
    assert type(arrived[0].weight) is torch.nn.Parameter
    assert arrived[0].weight is arrived[1].weight
    assert arrived[0].weight.requires_grad
    assert torch.equal(arrived[0].weight, module.weight)
    _, buffers = dumps(pair)
    assert len(buffers) == 1


class Marked(torch.Tensor):
    pass


def test_what_is_more_than_memory_is_left_to_pytorch() -> None:
    marked = torch.ones(COUNT).as_subclass(Marked)
    with_attribute = torch.ones(COUNT)
    with_attribute.note = "kept"  # type: ignore[attr-defined]
    conjugate = torch.randn(COUNT, dtype=torch.complex64).conj()
    negative = conjugate.imag
    for sent in (marked, with_attribute, conjugate, negative, torch.eye(300).to_sparse(), torch.ones(3, device="meta")):
        arrived = received(sent)
        assert type(arrived) is type(sent)
        assert (arrived.layout, arrived.device, arrived.is_conj()) == (sent.layout, sent.device, sent.is_conj())
        if not sent.is_meta:
            assert torch.equal(arrived.to_dense().resolve_conj(), sent.to_dense().resolve_conj())
    assert received(with_attribute).note == "kept"


def test_hooks_are_refused_or_dropped_as_pytorch_does_it() -> None:
    sent = torch.ones(COUNT, requires_grad=True)
    sent.register_hook(lambda grad: grad)
    with warnings.catch_warnings(record=True) as plain:
        warnings.simplefilter("always")
        pickle.dumps(copy.copy(sent))
    with warnings.catch_warnings(record=True) as ours:
        warnings.simplefilter("always")
        assert torch.equal(received(sent), sent)
    assert [str(warning.message) for warning in ours] == [str(warning.message) for warning in plain]


def test_tensors_in_processes_are_writable_and_their_receivers_own(keepers: Any) -> None:
    for dtype in (torch.bfloat16, torch.uint8, torch.int64):
        sent = torch.ones(LARGE_BYTES, dtype=dtype)
        keepers.keep.call(sent).get(timeout=WITHIN_S)
        keepers.slice(gpus=1).add_to_kept.call_one(1).get(timeout=WITHIN_S)
        shown = keepers.show.call().get(timeout=WITHIN_S)
        assert [int(tensor[-1]) for _, tensor in shown.items()] == [1, 2]
        assert all(tensor.dtype == dtype for _, tensor in shown.items())
        assert int(sent[-1]) == 1
        keepers.drop.call().get(timeout=WITHIN_S)


def test_sending_other_values_does_not_import_torch() -> None:
    code = """
import sys
from monarch._actor.pickling import dumps
dumps([bytearray(10**6)])
print("torch" in sys.modules)
"""
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout == "False\n"
