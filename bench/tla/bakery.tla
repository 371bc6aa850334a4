---- MODULE Bakery ----
EXTENDS Naturals, FiniteSets
\* may not end
CONSTANTS N, Numbers
VARIABLES customer, drawing, drawn, number, passed
vars == <<customer, drawing, drawn, number, passed>>
C == 0..(N - 1)
Init == /\ customer = [c \in C |-> "come"] /\ drawing = [c \in C |-> FALSE]
        /\ drawn = [c \in C |-> 0] /\ number = [c \in C |-> 0] /\ passed = [c \in C |-> {}]
Go(c, from, to) == customer[c] = from /\ customer' = [customer EXCEPT ![c] = to]
Highest == CHOOSE h \in 0..Numbers : (\E c \in C : number[c] = h) /\ \A c \in C : number[c] <= h
Come(c) == /\ Go(c, "come", "draw") /\ Highest + N <= Numbers
           /\ drawing' = [drawing EXCEPT ![c] = TRUE] /\ UNCHANGED <<drawn, number, passed>>
Draw(c) == /\ Go(c, "draw", "show")
           /\ drawn' = [drawn EXCEPT ![c] = Highest + 1] /\ UNCHANGED <<drawing, number, passed>>
Show(c) == /\ Go(c, "show", "look") /\ drawing' = [drawing EXCEPT ![c] = FALSE]
           /\ number' = [number EXCEPT ![c] = drawn[c]] /\ drawn' = [drawn EXCEPT ![c] = 0]
           /\ passed' = [passed EXCEPT ![c] = {c}]
Look(c) == /\ Go(c, "look", "served") /\ passed[c] = C
           /\ passed' = [passed EXCEPT ![c] = {}] /\ UNCHANGED <<drawing, drawn, number>>
Before(c, d) == number[d] = 0 \/ number[c] < number[d] \/ (number[c] = number[d] /\ c < d)
Passes(c, d) == /\ customer[c] = "look" /\ d \notin passed[c] /\ ~ drawing[d] /\ Before(c, d) = TRUE
                /\ passed' = [passed EXCEPT ![c] = @ \cup {d}] /\ UNCHANGED <<customer, drawing, drawn, number>>
Served(c) == Go(c, "served", "leave") /\ UNCHANGED <<drawing, drawn, number, passed>>
Leave(c) == Go(c, "leave", "come") /\ number' = [number EXCEPT ![c] = 0] /\ UNCHANGED <<drawing, drawn, passed>>
Step(c) == Come(c) \/ Draw(c) \/ Show(c) \/ Look(c) \/ Served(c) \/ Leave(c) \/ \E d \in C : Passes(c, d)
Next == \E c \in C : Step(c)
Spec == Init /\ [][Next]_vars /\ \A c \in C : WF_vars(Step(c))
Exclusion == Cardinality({c \in C : customer[c] = "served"}) <= 1
IsServed == \A c \in C : (customer[c] = "look") ~> (customer[c] = "served")
====
