"""Sums that hide their parts: a server learns what many clients' models add up to, and no more.

The protocol is that of Bonawitz et al. (Practical Secure Aggregation, CCS 2017) for a server that
follows it: `sums` makes any algorithm that needs nothing but sums go through it, `protocol` is its
arithmetic, `secrets` and `shamir` what it is built from, `fixed` how models become whole numbers.
"""
