"""A contract as data."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from shapecheck import InRange, MultipleOf, OneOf, PrefixSum, SameAsHost, SameBatch, SameDevice
from shapecheck._contract._spec import Argument, Spec, TensorSpec, from_payload

few = settings(max_examples=60, deadline=None)

names = st.sampled_from(["x", "tags", "größe", "return", "return[0]"])
limits = st.integers(-(2**40), 2**40) | st.sampled_from(["S", "B+1", "S//2"])
texts = st.text(max_size=6)
invariants = st.one_of(
    st.builds(PrefixSum, st.none() | st.integers(), st.none() | limits, st.sampled_from(["exact", "allow"])),
    st.lists(st.integers() | texts, min_size=1, max_size=4).map(lambda values: OneOf(*values)),
    st.builds(InRange, limits, limits),
    st.builds(MultipleOf, st.integers(1, 99), st.none() | st.sampled_from(["S", "2*S"])),
    st.builds(SameBatch, names, st.sampled_from(["any", "both"])),
    st.builds(SameDevice, names),
    st.builds(SameAsHost, names, st.sampled_from(["equal", "upper_bound"])),
)
tensors = st.builds(
    TensorSpec,
    texts,
    st.none() | st.sampled_from(["", "1 S C", "*batch B+1"]),
    st.none() | st.lists(st.sampled_from(["int32", "bfloat16"]), min_size=1, unique=True).map(tuple),
)
arguments = st.builds(
    Argument,
    names,
    st.booleans(),
    st.none() | tensors,
    st.lists(invariants, max_size=3).map(tuple),
    st.none() | st.text(min_size=1, max_size=6),
    st.booleans(),
)
specs = st.builds(
    Spec, texts, st.lists(arguments, max_size=4).map(tuple), st.lists(arguments, max_size=2).map(tuple), st.booleans()
)


@given(specs)
@few
def test_survives_json(spec):
    again = from_payload(spec.payload)
    assert again == spec
    assert hash(again) == hash(spec)
    assert again.payload == spec.payload
    json.loads(spec.payload)
    assert spec.payload.isascii()


def spec():
    def tensor(name, dims, *invariants):
        return Argument(name, tensor=TensorSpec("", dims, None), invariants=invariants)

    return Spec(
        "Model.forward",
        (
            tensor("x", "1 S C", MultipleOf(64, of="S")),
            tensor("cu_q", "B+1", PrefixSum(end="S"), SameBatch("cu_k", empty="both"), SameDevice("x")),
            tensor("cu_k", "B+1"),
            tensor("index", "I", InRange("L", "S+C")),
            tensor("pages", "L"),
            Argument("n", invariants=(InRange(0, "C"),), hint="int", number=True),
            Argument("host", invariants=(PrefixSum(),), hint="list[int]"),
        ),
        (tensor("return", "S"),),
    )


def test_what_the_value_checks_read():
    assert [argument.name for argument in spec().valued] == ["cu_q", "index", "host"]
    assert spec().value_operands == ("cu_q", "index", "host", "cu_k")
    assert spec().value_symbols == ("S", "L", "C")


def test_value_invariants_are_those_that_read_values():
    contract = spec()
    assert contract.value_invariants(contract.by_name["x"]) == ()
    assert contract.value_invariants(contract.by_name["cu_q"]) == (PrefixSum(end="S"), SameBatch("cu_k", empty="both"))
    assert list(contract.by_name) == ["x", "cu_q", "cu_k", "index", "pages", "n", "host", "return"]


def test_invariants_over_shapes_look_at_values_where_one_side_is_no_tensor():
    cu = Argument("cu", tensor=TensorSpec("", "B+1", None), invariants=(SameBatch("host"), MultipleOf(2, of="B")))
    host = Argument("host", invariants=(SameBatch("cu"),), hint="list[int]")
    contract = Spec("f", (cu, host))
    assert contract.value_invariants(cu) == (SameBatch("host"),)
    assert contract.value_invariants(host) == (SameBatch("cu"),)


def test_payload_leaves_defaults_out():
    assert json.loads(Spec("f", (Argument("x"),)).payload) == {
        "function": "f",
        "arguments": [{"name": "x"}],
        "returns": [],
        "returns_tuple": False,
    }


def test_equal_payloads_give_one_spec():
    assert from_payload(spec().payload) is from_payload(spec().payload)
