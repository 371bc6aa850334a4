"""How far a reader of an object store has got: durable, and it only goes forward."""
