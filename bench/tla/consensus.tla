---- MODULE Consensus ----
EXTENDS FiniteSets, Naturals
CONSTANT Values
VARIABLE chosen
Init == chosen = {}
Next == chosen = {} /\ \E v \in Values : chosen' = {v}
Spec == Init /\ [][Next]_chosen
Agreement == Cardinality(chosen) <= 1
====
