"""What the tests of DOPE share: `reference` (the original code's results), `units` (those of its small functions),
`fake_checkpoint` (a model as its authors' file, of random weights), `blank_model` (tiny, and finds what it is told).
"""
