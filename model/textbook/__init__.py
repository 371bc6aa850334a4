"""Models of textbooks: small machines with known numbers of states, and examples of the language."""
