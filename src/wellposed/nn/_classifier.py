"""A class for each sequence."""

from __future__ import annotations

from wellposed.nn._sequence_model import StreamingModel


class SequenceClassifier(StreamingModel):
    """Scores of ``d_output`` classes, before the softmax, for each sequence (for each step with ``pooling="none"``).

    The arguments are those of every model here: see ``ModelConfig``. It also streams: with ``step`` the scores are
    those of the sequence so far.

    >>> import torch
    >>> model = SequenceClassifier(3, 10, layer="s4ptd", d_model=16, n_layers=2).eval()
    >>> scores, state = model(torch.randn(2, 100, 3), lengths=torch.tensor([100, 60]), return_state=True)
    >>> scores, state = model.step(torch.randn(2, 3), state)
    >>> scores.shape
    torch.Size([2, 10])
    >>> words = SequenceClassifier(None, 2, vocabulary=135, layer="s5", d_model=16, layer_options={"d_state": 32})
    >>> words(torch.randint(135, (2, 100))).shape
    torch.Size([2, 2])
    """
