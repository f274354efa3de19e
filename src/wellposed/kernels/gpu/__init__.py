"""Kernels in Triton. Nothing here is imported before a tensor on a GPU asks for it: docs/devdocs/gpu.md"""
