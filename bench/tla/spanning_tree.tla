---- MODULE SpanningTree ----
EXTENDS Integers
CONSTANT N
VARIABLES parent, distance
vars == <<parent, distance>>
Nodes == 0..(N - 1)
Edge(m, n) == (m - n) % N \in {1, N - 1} \/ {m, n} = {0, 2}
Init == parent = [n \in Nodes |-> n] /\ distance = [n \in Nodes |-> IF n = 0 THEN 0 ELSE N]
Move(n, m, d) == /\ Edge(m, n) = TRUE /\ distance[m] < d /\ d < distance[n]
                 /\ distance' = [distance EXCEPT ![n] = d] /\ parent' = [parent EXCEPT ![n] = m]
Next == \E n, m, d \in Nodes : Move(n, m, d)
Spec == Init /\ [][Next]_vars /\ WF_vars(Next)
Nearer == \A n \in Nodes : parent[n] = n \/ distance[parent[n]] < distance[n]
Settled == <>(distance = [n \in Nodes |-> <<0, 1, 1, 2, 1>>[n + 1]])
====
