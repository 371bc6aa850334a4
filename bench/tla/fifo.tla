---- MODULE Fifo ----
EXTENDS Sequences, Naturals
\* may not end
CONSTANTS Data, Room
VARIABLES put, isPut, taken, isTaken, buffer
vars == <<put, isPut, taken, isTaken, buffer>>
D0 == CHOOSE d \in Data : TRUE
Init == put = D0 /\ isPut = FALSE /\ taken = D0 /\ isTaken = FALSE /\ buffer = <<>>
Send(d) == ~ isPut /\ put' = d /\ isPut' = TRUE /\ UNCHANGED <<taken, isTaken, buffer>>
Enqueue == /\ isPut /\ Len(buffer) < Room /\ buffer' = Append(buffer, put) /\ isPut' = FALSE
           /\ UNCHANGED <<put, taken, isTaken>>
Dequeue == /\ ~ isTaken /\ buffer # <<>> /\ taken' = Head(buffer) /\ isTaken' = TRUE /\ buffer' = Tail(buffer)
           /\ UNCHANGED <<put, isPut>>
Receive == isTaken /\ isTaken' = FALSE /\ UNCHANGED <<put, isPut, taken, buffer>>
Next == (\E d \in Data : Send(d)) \/ Enqueue \/ Dequeue \/ Receive
Spec == Init /\ [][Next]_vars
Bounded == Len(buffer) <= Room
====
