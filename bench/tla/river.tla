---- MODULE River ----
EXTENDS Integers
\* may not end
CONSTANT Each
VARIABLES missionaries, cannibals, boat
Init == missionaries = Each /\ cannibals = Each /\ boat = TRUE
Cross(m, c) == /\ m + c \in 1..2
               /\ LET sign == IF boat THEN -1 ELSE 1
                  IN missionaries' = missionaries + sign * m /\ cannibals' = cannibals + sign * c
               /\ missionaries' \in 0..Each /\ cannibals' \in 0..Each /\ boat' = ~ boat
               /\ (missionaries' = cannibals' \/ missionaries' \in {0, Each}) = TRUE
Next == \E m, c \in 0..2 : Cross(m, c)
Spec == Init /\ [][Next]_<<missionaries, cannibals, boat>>
Unsolved == missionaries + cannibals > 0 \/ boat
====
