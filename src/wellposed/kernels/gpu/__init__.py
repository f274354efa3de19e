"""Kernels in Triton. Nothing here is imported before a tensor on a GPU asks for it: docs/devdocs/gpu.md"""

__all__: list[str] = []
