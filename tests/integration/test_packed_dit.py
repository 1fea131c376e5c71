from inspect import unwrap
from itertools import pairwise

import pytest
import torch
from packed_dit import (
    SIZES,
    TAGS,
    Config,
    PackedDiT,
    Segments,
    build_model,
    denoise,
    faults,
    masked_attention,
    pack_requests,
    prepare,
    random_request,
    row_positions,
    segment_attention,
    segment_mask,
)
from torch._dynamo.testing import CompileCounterWithBackend
from torch.nn.functional import scaled_dot_product_attention

from shapecheck import ContractError, LayoutError, explain


class Bare(PackedDiT):
    """The model without its contract."""

    forward = unwrap(PackedDiT.forward)


@pytest.fixture
def model():
    return build_model()


@pytest.fixture
def small():
    return prepare([random_request(SIZES["small"], seed=1)])


@pytest.fixture
def pair():
    return prepare([random_request(SIZES["small"], seed=1), random_request(SIZES["tiny"], seed=2)])


def bare(model):
    same = Bare(model.config).eval().requires_grad_(requires_grad=False)
    same.load_state_dict(model.state_dict())
    return same


class TestLayout:
    def test_the_real_request(self):
        layout = pack_requests([SIZES["720p"]])
        assert (layout.seq_len, layout.used, layout.max_seqlen) == (58_816, 58_758, 58_758)
        assert layout.cu_seqlens_host == (0, 58_758, 58_816)
        assert layout.token_tags.unique_consecutive(return_counts=True)[1].tolist() == [128, 880, 150, 57_600, 58]
        assert layout.token_tags.unique_consecutive().tolist() == [1, 0, 2, 0, -1]

    def test_positions(self, small):
        layout = small.layout
        positions = row_positions(layout)
        assert positions.shape == (1, 128, 3)
        of = layout.split(positions, dim=1)
        assert of["text"][0].tolist() == [[i, i, i] for i in range(14)]
        assert of["image"][0].tolist() == [[14, y, x] for y in range(4) for x in range(6)]
        assert of["audio"][0].tolist() == [[14 + t, 0, c] for t in range(5) for c in range(2)]
        assert of["video"][0].tolist() == [[14 + t, y, x] for t in range(3) for y in range(4) for x in range(6)]
        assert positions[0, layout.used :].count_nonzero() == 0

    def test_a_request_without_an_image_has_the_same_names(self):
        layout = pack_requests([SIZES["tiny"]])
        assert layout.part_index("image").tolist() == []
        assert layout.geometry.names == ("text", "image", "audio", "video")


class TestAttention:
    @staticmethod
    def segments(q, k):
        cu = [torch.tensor(boundaries, dtype=torch.int32) for boundaries in (q, k)]
        return Segments(*cu, tuple(q), tuple(k), max(b - a for a, b in pairwise(q)))

    def test_equals_one_attention_under_a_block_mask(self):
        torch.manual_seed(0)
        q, k, v = torch.randn(3, 20, 2, 8)
        ids = torch.tensor([0] * 7 + [1] * 1 + [2] * 12)
        mask = ids[:, None] == ids[None, :]
        dense = scaled_dot_product_attention(*(x.transpose(0, 1) for x in (q, k, v)), attn_mask=mask).transpose(0, 1)
        segments = self.segments([0, 7, 8, 20], [0, 7, 8, 20])
        torch.testing.assert_close(segment_attention(q, k, v, segments), dense)
        assert torch.equal(segment_mask(segments, 20), mask)
        torch.testing.assert_close(masked_attention(q, k, v, mask), dense)

    def test_a_mask_of_different_queries_and_keys(self):
        mask = segment_mask(self.segments([0, 2, 6], [0, 5, 6]), 6)
        assert mask.sum(1).tolist() == [5, 5, 1, 1, 1, 1]

    def test_rows_that_no_segment_covers_are_zero(self):
        torch.manual_seed(0)
        q, k, v = torch.randn(3, 10, 1, 4)
        out = segment_attention(q, k, v, self.segments([0, 4, 4, 7], [0, 4, 4, 7]))
        assert out[7:].count_nonzero() == 0
        torch.testing.assert_close(out[:7], segment_attention(q[:7], k[:7], v[:7], self.segments([0, 4, 7], [0, 4, 7])))

    def test_queries_without_keys_are_zero(self):
        q, k, v = torch.ones(3, 6, 1, 4)
        out = segment_attention(q, k, v, self.segments([0, 2, 6], [0, 6, 6]))
        assert out[:2].eq(1).all()
        assert out[2:].count_nonzero() == 0


class TestForward:
    def test_a_batch_equals_its_requests_one_by_one(self, model, pair):
        together = model(**pair.arguments)
        apart = [
            model(**prepare([random_request(SIZES[name], seed=seed)]).arguments)
            for name, seed in (("small", 1), ("tiny", 2))
        ]
        for packed, single in zip(together, zip(*apart, strict=True), strict=True):
            torch.testing.assert_close(packed, torch.cat(single))

    def test_equals_the_undecorated_model(self, model, pair):
        for checked, unchecked in zip(model(**pair.arguments), bare(model)(**pair.arguments), strict=True):
            assert torch.equal(checked, unchecked)

    def test_the_image_is_not_denoised(self, model, small):
        velocity, _ = model(**small.arguments)
        image = len(small.layout.part_index("image"))
        assert velocity[:image].count_nonzero() == 0
        assert velocity[image:].ne(0).all()

    @pytest.mark.parametrize(("argument", "names"), [("x", ("text", "audio")), ("audio_x", ("text", "image", "video"))])
    def test_rows_of_other_modalities_do_not_leak(self, model, small, argument, names):
        expected = model(**small.arguments)
        polluted = small.arguments[argument].index_fill(1, small.layout.part_index(*names), float("nan"))
        polluted[:, small.layout.used :] = float("nan")
        for one, other in zip(model(**{**small.arguments, argument: polluted}), expected, strict=True):
            assert torch.equal(one, other)

    def test_requests_do_not_leak(self, model, pair):
        rows = pair.layout.lengths[0]
        changed = pair.arguments["x"].clone()
        changed[:, rows:] += 1
        for one, other, positions in zip(
            model(**{**pair.arguments, "x": changed}),
            model(**pair.arguments),
            (pair.arguments["img_pos"], pair.arguments["audio_pos"]),
            strict=True,
        ):
            first = positions < rows
            assert torch.equal(one[first], other[first])
            assert not torch.allclose(one[~first], other[~first])

    @pytest.mark.parametrize("name", ["text", "audio", "video"])
    def test_tags_pick_the_modulation(self, model, small, name):
        tag = (TAGS[name] + 1) % 3
        tags = small.arguments["token_tags"].index_fill(0, small.layout.part_index(name), tag)
        changed = model(**{**small.arguments, "token_tags": tags})[0]
        assert not torch.allclose(changed, model(**small.arguments)[0])

    def test_denoise(self, model, pair):
        results = denoise(model, pair, steps=2)
        requests = [random_request(SIZES["small"], seed=1), random_request(SIZES["tiny"], seed=2)]
        for result, request in zip(results, requests, strict=True):
            assert (result.video.shape, result.audio.shape) == (request.video.shape, request.audio.shape)
            assert result.video.isfinite().all()
        alone = denoise(model, prepare(requests[1:]), steps=2)[0]
        torch.testing.assert_close(results[1].video, alone.video)
        torch.testing.assert_close(results[1].audio, alone.audio)

    def test_no_steps_give_the_noise_back(self, model, pair):
        result = denoise(model, pair, steps=0)[1]
        request = random_request(SIZES["tiny"], seed=2)
        assert torch.equal(result.video, request.video)
        assert torch.equal(result.audio, request.audio)


class TestMasked:
    """The model that attends under a mask: slow as it stands, lowered by the backend."""

    @pytest.fixture
    def model(self):
        return build_model(Config(depth=1))

    @pytest.fixture
    def masked(self):
        return build_model(Config(depth=1, attention="masked"))

    def test_equals_the_model_that_attends_segment_by_segment(self, model, masked, pair):
        for one, other in zip(masked(**pair.arguments), model(**pair.arguments), strict=True):
            torch.testing.assert_close(one, other)

    def test_every_attention_is_lowered(self, masked, pair):
        found = explain(masked, **pair.arguments)
        assert [site.site.lowered for site in found.sites] == [True]
        # Two requests and the padding.
        assert found.sites[0].boundaries[0].longest == (max(pair.layout.lengths),) * 2
        dense, lowered = found.saved_flops()
        assert 0 < lowered < dense / 2

    def test_compiled_with_the_backend(self, model, masked, small, pair):
        torch._dynamo.reset()
        compiled = torch.compile(masked, backend="shapecheck", options={"inner": "aot_eager"}, fullgraph=True)
        for batch in (small, pair, small):
            for one, other in zip(compiled(**batch.arguments), model(**batch.arguments), strict=True):
                torch.testing.assert_close(one, other)

    def test_a_violation_leaves_the_compiled_region(self, masked, pair):
        torch._dynamo.reset()
        compiled = torch.compile(masked, backend="shapecheck", options={"inner": "aot_eager"}, fullgraph=True)
        with pytest.raises(ContractError, match=r"cu_seqlens_k axis 0 \(B\+1\) is 3, expected 4"):
            faults.keys_of_another_batch(compiled, pair)


def text_of(error, call, *args):
    with pytest.raises(error) as caught:
        call(*args)
    return str(caught.value).split("\n")


TAGS_OF_ONE_MODALITY = [
    "PackedDiT.forward: token_tags axis 0 (S) is 72, expected 128",
    "  S = 128 was bound by x axis 1 (x is float32[1, 128, 96])",
    "  72 rows are video only; text (14), image (24), audio (10) and padding (8) are missing",
    "  x           [tttttt|iiiiiiiiii|aaaa|vvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvv|...] 128",
    "  token_tags  [                      |vvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvv    ] 72",
    "               ^^^^^^^^^^^^^^^^^^^^^^                                  ^^^^  missing",
    "  (t text, i image, a audio, v video, . padding)",
    "  fix: build token_tags from the same rows as x",
]

TAGS_BEFORE_PADDING = [
    "PackedDiT.forward: token_tags axis 0 (S) is 120, expected 128",
    "  S = 128 was bound by x axis 1 (x is float32[1, 128, 96])",
    "  120 rows are text, image, audio and video only; padding (8) is missing",
    "  x           [tttttt|iiiiiiiiii|aaaa|vvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvv|...] 128",
    "  token_tags  [tttttt|iiiiiiiiii|aaaa|vvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvv    ] 120",
    "                                                                       ^^^^  missing",
    "  (t text, i image, a audio, v video, . padding)",
    "  fix: build token_tags from the same rows as x",
]

KEYS_OF_ANOTHER_BATCH = [
    "PackedDiT.forward: cu_seqlens_k axis 0 (B+1) is 3, expected 4",
    "  B = 3 was bound by cu_seqlens_q axis 0 (cu_seqlens_q is int32[4])",
    "  cu_seqlens_q  [0000000000000000000000000000000000000|11111111111|2222222222] 192",
    "  cu_seqlens_k  [0000000000000000000000000000000000000000000000000|1111111111] 192",
    "                                                      ~~~~~~~~~~~~~~~~~~~~~~~  shifted",
    "  fix: filter, chunk or pad both sides together: build it and cu_seqlens_q from one list of lengths",
]


class TestFaults:
    def test_tags_of_one_modality(self, model, small):
        assert text_of(ContractError, faults.tags_of_one_modality, model, small) == TAGS_OF_ONE_MODALITY

    def test_tags_before_padding(self, model, small):
        assert text_of(ContractError, faults.tags_before_padding, model, small) == TAGS_BEFORE_PADDING

    @pytest.mark.parametrize(("caller", "rows"), [(faults.tags_of_one_modality, 72), (faults.tags_before_padding, 120)])
    def test_tags_without_the_contract_crash_where_no_argument_is_named(self, model, small, caller, rows):
        assert text_of(RuntimeError, caller, faults.without_contract(model), small) == [
            f"The size of tensor a ({rows}) must match the size of tensor b (128) at non-singleton dimension 0"
        ]

    def test_cached_seq_len(self):
        batch = prepare([random_request(SIZES["720p"])])
        cached = faults.seq_len_without_image(batch)
        assert text_of(LayoutError, faults.layout_of_cached_seq_len, batch, cached) == [
            "seq_len is 57920, but the parts need 58758 rows",
            "  text 128 + image 880 + audio 150 + video 57600 = 58758",
            "  seq_len would be derived as 58816, the rows used rounded up to a multiple of 64",
            "  fix: leave seq_len out, or compute it again whenever the parts change",
        ]

    def test_rows_of_a_cached_seq_len(self, model, pair):
        assert text_of(ContractError, faults.rows_of_cached_seq_len, model, pair, 128) == [
            "PackedDiT.forward: img_pos[96] is 133, expected 0 <= value < 128 (S)",
            "  S = 128 was bound by x axis 1",
            "  24 values are wrong; this is the first",
            "  fix: an index that was made for other rows must be rebuilt, not clamped",
        ]

    def test_rows_of_a_cached_seq_len_without_the_contract(self, model, pair):
        with pytest.raises(IndexError, match="index out of range in self"):
            faults.rows_of_cached_seq_len(faults.without_contract(model), pair, 128)

    def test_keys_of_another_batch(self, model, pair):
        assert text_of(ContractError, faults.keys_of_another_batch, model, pair) == KEYS_OF_ANOTHER_BATCH

    def test_keys_of_another_batch_without_the_contract_are_silently_wrong(self, model, pair):
        wrong, _ = faults.keys_of_another_batch(faults.without_contract(model), pair)
        right, _ = model(**pair.arguments)
        denoised = pair.arguments["update_mask"]
        assert wrong.isfinite().all()
        assert ((wrong - right).abs().amax(dim=1) > 1e-4).equal(denoised)

    def test_host_boundaries_of_another_batch(self, model, pair):
        # Attention reads the host copy, so this alone leaks one request into the other.
        keys = (0, pair.layout.used, pair.layout.seq_len)
        with pytest.raises(
            ContractError, match=r"cu_seqlens_k has 4 entries, expected 3 as its host copy cu_seqlens_k_host has"
        ):
            model(**{**pair.arguments, "cu_seqlens_k_host": keys})

    def test_the_fields(self, model, pair):
        with pytest.raises(ContractError) as caught:
            faults.keys_of_another_batch(model, pair)
        error = caught.value
        assert (error.argument, error.axis, error.expected, error.actual, error.bound_by) == (
            "cu_seqlens_k",
            0,
            4,
            3,
            "cu_seqlens_q",
        )


class TestCompiled:
    """A layout's host boundaries are Python ints to Dynamo: a new number of segments is a new graph, with or without
    the contract."""

    @pytest.fixture(autouse=True)
    def fresh(self, monkeypatch):
        # Dynamo warns, once, that its profile cache is off.
        monkeypatch.setattr("torch._dynamo.pgo.warn_once", lambda *_: None)
        torch._dynamo.reset()
        with torch.compiler.config.patch(force_disable_caches=True):
            yield
        torch._dynamo.reset()

    @pytest.fixture
    def model(self):
        return build_model(Config(depth=1))

    @pytest.mark.parametrize("dynamic", [None, False])
    def test_fullgraph(self, model, small, pair, dynamic):
        graphs = []
        for module in (model, bare(model)):
            torch._dynamo.reset()
            counter = CompileCounterWithBackend("aot_eager")
            compiled = torch.compile(module, backend=counter, fullgraph=True, dynamic=dynamic)
            for batch in (small, pair, small):
                for one, other in zip(compiled(**batch.arguments), module(**batch.arguments), strict=True):
                    torch.testing.assert_close(one, other)
            graphs.append(counter.frame_count)
        assert graphs == [2, 2]

    def test_a_violation_leaves_the_compiled_region(self, model, pair):
        counter = CompileCounterWithBackend("aot_eager")
        compiled = torch.compile(model, backend=counter, fullgraph=True, dynamic=False)
        expected = compiled(**pair.arguments)
        assert text_of(ContractError, faults.keys_of_another_batch, compiled, pair) == KEYS_OF_ANOTHER_BATCH
        graphs = counter.frame_count
        assert torch.equal(compiled(**pair.arguments)[0], expected[0])
        assert counter.frame_count == graphs

    def test_tags_in_a_compiled_region(self, model, small):
        compiled = torch.compile(model, backend="aot_eager", fullgraph=True, dynamic=False)
        # Whether the rows can be drawn depends on whether it is found while Dynamo traces or when the graph runs.
        lines = text_of(ContractError, faults.tags_of_one_modality, compiled, small)
        assert lines[:2] == TAGS_OF_ONE_MODALITY[:2]
        assert TAGS_OF_ONE_MODALITY[-1] in lines

    def test_values_in_a_compiled_region(self, model, small):
        compiled = torch.compile(model, backend="aot_eager", fullgraph=True, dynamic=False)
        steps = small.arguments["inverse_indices"].index_fill(0, torch.tensor([5]), 2)
        assert text_of(ContractError, lambda: compiled(**{**small.arguments, "inverse_indices": steps})) == [
            "PackedDiT.forward: inverse_indices[5] is 2, expected 0 <= value < 2 (M)",
            "  M = 2 was bound by unique_timesteps axis 0",
            "  fix: an index that was made for other rows must be rebuilt, not clamped",
        ]
