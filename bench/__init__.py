"""Benchmarks: each compares with something in the same run, and writes out/bench/NAME.json."""
