---- MODULE Prisoners ----
EXTENDS Naturals
\* may not end
CONSTANT N
VARIABLES a, b, times, count
vars == <<a, b, times, count>>
P == 0..(N - 1)
Init == a \in BOOLEAN /\ b \in BOOLEAN /\ times = [p \in P |-> 0] /\ count = 0
Counter == IF a THEN a' = FALSE /\ count' = count + 1 /\ UNCHANGED <<b, times>>
                ELSE b' = ~ b /\ UNCHANGED <<a, times, count>>
Other(p) == IF ~ a /\ times[p] < 2
            THEN a' = TRUE /\ times' = [times EXCEPT ![p] = @ + 1] /\ UNCHANGED <<b, count>>
            ELSE b' = ~ b /\ UNCHANGED <<a, times, count>>
Visit(p) == IF p = 0 THEN Counter ELSE Other(p)
Next == \E p \in P : Visit(p)
Spec == Init /\ [][Next]_vars /\ \A p \in P : WF_vars(Visit(p))
Knows == count >= 2 * N - 2
Truthful == \A p \in P : p # 0 /\ Knows => times[p] > 0
Knowing == <>Knows
====
