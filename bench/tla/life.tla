---- MODULE Life ----
EXTENDS Integers, FiniteSets
\* may not end
CONSTANT N
VARIABLE alive
Side == 0..(N - 1)
Init == alive \in [Side -> [Side -> BOOLEAN]]
Around(x, y) == {p \in Side \X Side : p # <<x, y>> /\ p[1] - x \in -1..1 /\ p[2] - y \in -1..1}
Neighbours(x, y) == Cardinality({p \in Around(x, y) : alive[p[1]][p[2]]})
Next == alive' = [x \in Side |-> [y \in Side |->
            Neighbours(x, y) = 3 \/ (alive[x][y] /\ Neighbours(x, y) = 2)]]
Spec == Init /\ [][Next]_alive
====
