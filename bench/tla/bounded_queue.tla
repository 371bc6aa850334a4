---- MODULE BoundedQueue ----
EXTENDS Integers
\* may not end
CONSTANT Places
VARIABLES place, written, read
vars == <<place, written, read>>
Init == place = [p \in 0..(Places - 1) |-> 0] /\ written = 0 /\ read = 0
Waiting == (written - read) % (2 * Places)
Put == /\ Waiting < Places /\ place' = [place EXCEPT ![written % Places] = written]
       /\ written' = (written + 1) % (2 * Places) /\ UNCHANGED read
Take == Waiting > 0 /\ read' = (read + 1) % (2 * Places) /\ UNCHANGED <<place, written>>
Next == Put \/ Take
Spec == Init /\ [][Next]_vars
InOrder == Waiting > 0 => place[read % Places] = read
OneEndMoves == [][written' = written \/ read' = read]_vars
====
