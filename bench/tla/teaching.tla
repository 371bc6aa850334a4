---- MODULE Teaching ----
EXTENDS Integers
CONSTANT N
VARIABLES pc, x, y
P == 0..(N - 1)
Init == pc = [p \in P |-> "write"] /\ x = [p \in P |-> 0] /\ y = [p \in P |-> 0]
Write(p) == pc[p] = "write" /\ pc' = [pc EXCEPT ![p] = "read"] /\ x' = [x EXCEPT ![p] = 1] /\ UNCHANGED y
Read(p) == /\ pc[p] = "read" /\ pc' = [pc EXCEPT ![p] = "done"]
           /\ y' = [y EXCEPT ![p] = x[(p + N - 1) % N]] /\ UNCHANGED x
Next == \E p \in P : Write(p) \/ Read(p)
Spec == Init /\ [][Next]_<<pc, x, y>>
OneIsSeen == (\A p \in P : pc[p] = "done") => \E p \in P : y[p] = 1
====
