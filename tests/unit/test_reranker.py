"""The reranker by its real load path: a small cross-encoder with random weights."""

from pathlib import Path

import pytest

from hopsyncd.errors import ModelUnavailable
from hopsyncd.models.encoder import CrossReranker

pytestmark = pytest.mark.models

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "who", "ruled", "rome", "caesar", "paris"]


def saved(folder: Path, scores: int = 1) -> Path:
    """A BERT of one layer, as `CrossEncoder.save` would write it."""
    import torch
    from transformers import BertConfig, BertForSequenceClassification, BertTokenizer

    torch.manual_seed(0)
    folder.mkdir()
    (folder / "vocab.txt").write_text("\n".join(WORDS))
    BertTokenizer(str(folder / "vocab.txt")).save_pretrained(folder)
    shape = BertConfig(
        vocab_size=len(WORDS),
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=1,
        intermediate_size=8,
    )
    shape.num_labels = scores
    BertForSequenceClassification(shape).save_pretrained(folder)
    return folder


def test_a_cross_encoder_scores_each_text_by_itself(tmp_path: Path) -> None:
    reranker = CrossReranker(str(saved(tmp_path / "model")), threads=1)
    texts = ["Caesar ruled Rome", "Paris", "Caesar ruled Rome " * 5000]
    scores = reranker.score_texts("Who ruled Rome?", texts)
    assert len(set(scores)) == 3
    assert reranker.score_texts("Who ruled Rome?", texts[1:2]) == scores[1:2]
    assert reranker.score_texts("Who ruled Rome?", []) == []


def test_nothing_is_loaded_before_the_first_question(tmp_path: Path) -> None:
    reranker = CrossReranker(str(tmp_path / "nowhere"), threads=1)
    with pytest.raises(ModelUnavailable, match="nowhere"):
        reranker.score_texts("Who?", ["Caesar"])


def test_a_model_with_several_scores_a_pair_is_refused(tmp_path: Path) -> None:
    reranker = CrossReranker(str(saved(tmp_path / "model", scores=3)), threads=1)
    with pytest.raises(ModelUnavailable, match="3 scores"):
        reranker.score_texts("Who?", ["Caesar"])
