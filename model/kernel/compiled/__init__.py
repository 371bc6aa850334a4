"""The compiled loop: a machine's expressions as C, in place of one NumPy operation after the other."""
