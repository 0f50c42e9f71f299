"""Benchmarks: each measures this project beside a baseline in the same run; docs/performance.md quotes them."""
