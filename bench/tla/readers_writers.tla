---- MODULE ReadersWriters ----
EXTENDS FiniteSets, Sequences, Naturals
\* may not end
CONSTANT Actors
VARIABLES readers, writers, waiting
vars == <<readers, writers, waiting>>
Init == readers = {} /\ writers = {} /\ waiting = <<>>
Waits(a) == \E i \in 1..Len(waiting) : waiting[i][2] = a
Ask(a, w) == ~ Waits(a) /\ waiting' = Append(waiting, <<w, a>>) /\ UNCHANGED <<readers, writers>>
Enter == /\ waiting # <<>> /\ writers = {}
         /\ Head(waiting)[1] => readers = {}
         /\ waiting' = Tail(waiting)
         /\ IF Head(waiting)[1] THEN writers' = writers \cup {Head(waiting)[2]} /\ UNCHANGED readers
                                ELSE readers' = readers \cup {Head(waiting)[2]} /\ UNCHANGED writers
Stop(a) == /\ a \in readers \cup writers
           /\ readers' = readers \ {a} /\ writers' = writers \ {a} /\ UNCHANGED waiting
Next == (\E a \in Actors, w \in BOOLEAN : Ask(a, w)) \/ Enter \/ \E a \in Actors : Stop(a)
Spec == Init /\ [][Next]_vars /\ WF_vars(Enter) /\ \A a \in Actors : WF_vars(Stop(a))
StaySpec == Init /\ [][Next]_vars /\ WF_vars(Enter)
Exclusion == (readers = {} \/ writers = {}) /\ Cardinality(writers) <= 1
Served == \A a \in Actors : Waits(a) ~> (a \in readers \cup writers)
====
