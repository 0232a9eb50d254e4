"""Benchmarks: dvcrypto beside the limit of the libraries it links, and beside what people use instead."""
