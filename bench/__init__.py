"""Speed and size, measured as ratios in one run: `python -m bench`.

Owns the generated trace, the naive pieces to compare with, and the table. Must not be imported by the product.
Called by `make bench`.
"""
