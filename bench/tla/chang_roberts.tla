---- MODULE ChangRoberts ----
EXTENDS Naturals, FiniteSets
CONSTANT N
VARIABLES begins, state, inbox
vars == <<begins, state, inbox>>
Nodes == 0..(N - 1)
After(n) == (n + 1) % N
Init == /\ begins \in [Nodes -> BOOLEAN] /\ (\E n \in Nodes : begins[n]) = TRUE
        /\ state = [n \in Nodes |-> "waits"] /\ inbox = [n \in Nodes |-> {}]
Begin(n) == /\ begins[n] /\ state[n] = "waits" /\ state' = [state EXCEPT ![n] = "candidate"]
            /\ inbox' = [inbox EXCEPT ![After(n)] = @ \cup {n}] /\ UNCHANGED begins
Receive(n, i) == /\ i \in inbox[n]
                 /\ LET stops == state[n] = "candidate" /\ i >= n
                        taken == [inbox EXCEPT ![n] = @ \ {i}]
                    IN /\ inbox' = IF stops THEN taken ELSE [taken EXCEPT ![After(n)] = @ \cup {i}]
                       /\ state' = [state EXCEPT ![n] = IF stops THEN IF i = n THEN "won" ELSE @ ELSE "lost"]
                 /\ UNCHANGED begins
Next == \E n \in Nodes : Begin(n) \/ \E i \in Nodes : Receive(n, i)
Spec == /\ Init /\ [][Next]_vars
        /\ \A n \in Nodes : WF_vars(Begin(n)) /\ \A i \in Nodes : WF_vars(Receive(n, i))
OneWins == Cardinality({n \in Nodes : state[n] = "won"}) <= 1
Won == <>(\E n \in Nodes : state[n] = "won")
====
