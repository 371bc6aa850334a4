---- MODULE SlidingPuzzle ----
EXTENDS Integers
\* may not end
VARIABLE place
P == 0..5
Begin == <<3, 0, 5, 1, 4, 2>>
Init == place = [p \in P |-> Begin[p + 1]]
Away(x, y) == IF x < y THEN y - x ELSE x - y
Beside(p, q) == Away(p \div 3, q \div 3) + Away(p % 3, q % 3) = 1
Slide(p, q) == Beside(p, q) /\ place[p] = 0 /\ place' = [place EXCEPT ![p] = place[q], ![q] = 0]
Next == \E p, q \in P : Slide(p, q)
Spec == Init /\ [][Next]_place
Unsolved == \E p \in P : place[p] # p
====
