"""What is measured, each figure with its floor in the same run: ``python -m benchmarks``.

A figure is only worth what its floor says beside it. Nothing here must not be part of the product or of a test.
"""
