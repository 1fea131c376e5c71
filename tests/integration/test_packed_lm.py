import pytest
import torch
from packed_lm import (
    Config,
    build_model,
    next_token_loss,
    pack_documents,
    packed_causal_mask,
    random_documents,
    training_step,
)

from shapecheck import ContractError, explain

DOCUMENTS = [b"packed", b"a", b"language", b"model"]


@pytest.fixture
def model():
    return build_model()


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def compiled(model):
    return torch.compile(model, backend="shapecheck", options={"inner": "aot_eager"}, fullgraph=True)


class TestDocuments:
    def test_packed(self):
        batch = pack_documents([b"abc", b"d", b"ef"])
        assert batch.tokens.tolist() == [list(b"abcdef")]
        assert batch.position_ids.tolist() == [[0, 1, 2, 0, 0, 1]]
        assert batch.labels.tolist() == [[*b"bc", -100, -100, *b"f", -100]]

    def test_random_ones_have_the_lengths(self):
        documents = random_documents([3, 1, 5])
        assert [len(document) for document in documents] == [3, 1, 5]
        assert documents == random_documents([3, 1, 5])


class TestForward:
    def test_the_mask(self):
        mask = packed_causal_mask(torch.tensor([[0, 1, 2, 0, 0, 1]]))
        assert mask.shape == (1, 1, 6, 6)
        assert mask[0, 0].int().tolist() == [
            [1, 0, 0, 0, 0, 0],
            [1, 1, 0, 0, 0, 0],
            [1, 1, 1, 0, 0, 0],
            [0, 0, 0, 1, 0, 0],
            [0, 0, 0, 0, 1, 0],
            [0, 0, 0, 0, 1, 1],
        ]

    def test_documents_do_not_see_each_other(self, model):
        together = pack_documents(DOCUMENTS)
        apart = [pack_documents([document]) for document in DOCUMENTS]
        expected = torch.cat([model(one.tokens, one.position_ids) for one in apart], dim=1)
        torch.testing.assert_close(model(together.tokens, together.position_ids), expected)

    def test_positions_of_other_rows_are_refused(self, model):
        batch = pack_documents(DOCUMENTS)
        with pytest.raises(ContractError, match=r"position_ids axis 1 \(S\) is 19, expected 20"):
            model(batch.tokens, batch.position_ids[:, 1:])


class TestBackend:
    @pytest.fixture
    def model(self):
        return build_model(Config(depth=1))

    def test_every_attention_is_lowered(self, model):
        batch = pack_documents(DOCUMENTS)
        found = explain(model, batch.tokens, batch.position_ids)
        assert [(site.site.lowered, site.site.causal) for site in found.sites] == [(True, True)]
        assert len(found.sites[0].boundaries[0].segments) == len(DOCUMENTS)

    def test_gradients(self, model):
        step = compiled(model)
        for documents in (DOCUMENTS, DOCUMENTS[2:], random_documents([7, 2, 40])):
            batch = pack_documents(documents)
            gradients = []
            for form in (step, model):
                loss = next_token_loss(form(batch.tokens, batch.position_ids), batch.labels)
                gradients.append([loss, *torch.autograd.grad(loss, list(model.parameters()))])
            for one, other in zip(*gradients, strict=True):
                torch.testing.assert_close(one, other)

    def test_training(self, model):
        batch = pack_documents(DOCUMENTS)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
        step = compiled(model)
        losses = [float(training_step(step, optimizer, batch)) for _ in range(8)]
        assert losses[-1] < 0.8 * losses[0]
