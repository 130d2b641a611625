"""The cases, in the order of the report."""

from benchmarks.cases import dense, distances, elementwise, product_sum, softmax, stencil, tiny, variance

CASES = tuple(module.CASE for module in (elementwise, product_sum, softmax, variance, distances, stencil, dense, tiny))
