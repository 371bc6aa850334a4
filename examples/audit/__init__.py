"""The classic mistakes of code that coordinates through a store, and how each is mended.

Every module is a system of `holdfast audit`, named like its file: `mended` is the program itself, and every
`broken_...` is a mutant of it, as in `holdfast audit counter --mutant read-modify-write`.
"""
