"""The classic mistakes of code that coordinates through a store, and how each is fixed.

Every module is a system of `fencepost audit`, named like its file: `fixed` is the program itself, and every
`mutant_...` is a mutant of it, as in `fencepost audit counter --mutant read-modify-write`.
"""
