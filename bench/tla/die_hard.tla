---- MODULE DieHard ----
EXTENDS Naturals
\* may not end
VARIABLES small, big
Init == small = 0 /\ big = 0
Least(a, b) == IF a < b THEN a ELSE b
Next == \/ small' = 3 /\ big' = big
        \/ big' = 5 /\ small' = small
        \/ small' = 0 /\ big' = big
        \/ big' = 0 /\ small' = small
        \/ LET m == Least(small, 5 - big) IN big' = big + m /\ small' = small - m
        \/ LET m == Least(big, 3 - small) IN small' = small + m /\ big' = big - m
Spec == Init /\ [][Next]_<<small, big>>
NotFour == big # 4
====
