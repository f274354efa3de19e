"""Numbers for each sequence, or for each step."""

from __future__ import annotations

from wellposed.nn._sequence_model import StreamingModel


class SequenceRegressor(StreamingModel):
    """``d_output`` numbers for each sequence, or for each step with ``pooling="none"``.

    The arguments are those of every model here: see ``ModelConfig``.

    >>> import torch
    >>> model = SequenceRegressor(3, 1, layer="s4ptd", d_model=16, n_layers=2, pooling="none").eval()
    >>> y, state = model(torch.randn(2, 100, 3), return_state=True)
    >>> y.shape
    torch.Size([2, 100, 1])
    >>> y, state = model.step(torch.randn(2, 3), state)
    >>> y.shape
    torch.Size([2, 1])
    """
