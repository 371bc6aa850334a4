---- MODULE Hanoi ----
EXTENDS Naturals
\* may not end
CONSTANT N
VARIABLE tower
D == 0..(N - 1)
Init == tower = [d \in D |-> 0]
Move(d, to) == /\ tower[d] # to /\ \A e \in 0..(d - 1) : tower[e] # tower[d] /\ tower[e] # to
               /\ tower' = [tower EXCEPT ![d] = to]
Next == \E d \in D, to \in 0..2 : Move(d, to)
Spec == Init /\ [][Next]_tower
Unsolved == \E d \in D : tower[d] # 2
====
