"""Names that no other actor or process has."""

from __future__ import annotations

import pickle

import pytest
from monarch._actor.identity import ActorAddr, ProcId, Uid

ID = bytes(range(16))


@pytest.mark.parametrize(
    "identity",
    [
        Uid.instance("trainer"),
        Uid.anonymous(),
        Uid.singleton("client"),
        Uid.instance_from_value(2**128 - 1, "x"),
        ProcId(ID, 3, "trainers"),
        ProcId(ID, 0, "with-a-dash"),
        ActorAddr.of(ID, "Loader 1", ProcId(ID, 3, "trainers")),
        ActorAddr.root_of(ProcId(ID, 0, "client")),
    ],
    ids=str,
)
def test_what_is_printed_can_be_read_back_and_what_is_pickled_too(identity: Uid | ProcId | ActorAddr) -> None:
    for copy in (type(identity).from_string(str(identity)), pickle.loads(pickle.dumps(identity))):
        assert copy == identity
        assert hash(copy) == hash(identity)
        assert str(copy) == str(identity)


@pytest.mark.parametrize("text", ["", "label<short>", "a<b", "label<!!!!!!!!!!!!!!!!!!!!!!>"])
def test_what_is_no_identity_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no identity"):
        Uid.from_string(text)
    with pytest.raises(ValueError, match="is no process"):
        ProcId.from_string(text)
    with pytest.raises(ValueError, match="is no actor"):
        ActorAddr.from_string(text)


def test_two_instances_of_one_label_differ_and_singletons_do_not() -> None:
    assert Uid.instance("x") != Uid.instance("x")
    assert Uid.singleton("x") == Uid.singleton("x") != Uid.singleton("y")


def test_a_uid_tells_what_it_is() -> None:
    assert (Uid.singleton("x").is_singleton, Uid.singleton("x").instance_value) == (True, None)
    uid = Uid.instance_from_value(7, "x")
    assert (uid.is_instance, uid.label, uid.instance_value) == (True, "x", 7)
    with pytest.raises(ValueError, match="128 bits"):
        Uid.instance_from_value(-1)


def test_labels_are_for_people_only() -> None:
    assert ProcId(ID, 3, "a") == ProcId(ID, 3, "b") != ProcId(ID, 4, "a")


def test_an_address_tells_actor_and_process() -> None:
    address = ActorAddr.of(ID, "My Loader!", ProcId(ID, 3, "Trainers"))
    assert (address.label, address.actor_name, address.proc_label) == ("myloader", "myloader", "trainers-3")
    assert str(address) == f"{address.uid}.{address.proc_id}"
    assert not address.is_root
    assert ActorAddr.of(ID, "!", ProcId(ID, 3)).label == "nil"
