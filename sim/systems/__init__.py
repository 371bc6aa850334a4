"""The protocols of Fencepost as systems to audit: the shipped code of `impl`, driven by the adversary.

Every module is a system of `fencepost audit`, named like its file: `fixed` is the program itself, and every
`broken_...` is the same with one of its safeguards broken.
"""
