---- MODULE Bakery ----
EXTENDS Naturals, FiniteSets
\* may not end
CONSTANTS N, Numbers
VARIABLES customer, drawing, number, passed
vars == <<customer, drawing, number, passed>>
C == 0..(N - 1)
Init == /\ customer = [c \in C |-> "come"] /\ drawing = [c \in C |-> FALSE]
        /\ number = [c \in C |-> 0] /\ passed = [c \in C |-> {}]
Go(c, from, to) == customer[c] = from /\ customer' = [customer EXCEPT ![c] = to]
Highest == CHOOSE h \in 0..Numbers : (\E c \in C : number[c] = h) /\ \A c \in C : number[c] <= h
Come(c) == /\ Go(c, "come", "draw") /\ Highest + N <= Numbers
           /\ drawing' = [drawing EXCEPT ![c] = TRUE] /\ UNCHANGED <<number, passed>>
Draw(c) == /\ Go(c, "draw", "show")
           /\ number' = [number EXCEPT ![c] = Highest + 1] /\ UNCHANGED <<drawing, passed>>
Show(c) == /\ Go(c, "show", "look") /\ drawing' = [drawing EXCEPT ![c] = FALSE]
           /\ passed' = [passed EXCEPT ![c] = {c}] /\ UNCHANGED number
Look(c) == /\ Go(c, "look", "served") /\ passed[c] = C
           /\ passed' = [passed EXCEPT ![c] = {}] /\ UNCHANGED <<drawing, number>>
Before(c, d) == number[d] = 0 \/ number[c] < number[d] \/ (number[c] = number[d] /\ c < d)
Passes(c, d) == /\ customer[c] = "look" /\ d \notin passed[c] /\ ~ drawing[d] /\ Before(c, d) = TRUE
                /\ passed' = [passed EXCEPT ![c] = @ \cup {d}] /\ UNCHANGED <<customer, drawing, number>>
Served(c) == Go(c, "served", "leave") /\ UNCHANGED <<drawing, number, passed>>
Leave(c) == Go(c, "leave", "come") /\ number' = [number EXCEPT ![c] = 0] /\ UNCHANGED <<drawing, passed>>
Step(c) == Come(c) \/ Draw(c) \/ Show(c) \/ Look(c) \/ Served(c) \/ Leave(c) \/ \E d \in C : Passes(c, d)
Next == \E c \in C : Step(c)
Spec == Init /\ [][Next]_vars /\ \A c \in C : WF_vars(Step(c))
Exclusion == Cardinality({c \in C : customer[c] = "served"}) <= 1
IsServed == \A c \in C : (customer[c] = "look") ~> (customer[c] = "served")
====
