---- MODULE BlockingQueue ----
EXTENDS Naturals
\* may not end
CONSTANTS Producers, Consumers, Room
VARIABLES buffer, waiting
Init == buffer = 0 /\ waiting = {}
Wake == IF waiting = {} THEN UNCHANGED waiting ELSE \E t \in waiting : waiting' = waiting \ {t}
Put(t) == /\ t \notin waiting
          /\ IF buffer = Room THEN waiting' = waiting \cup {t} /\ UNCHANGED buffer
                              ELSE buffer' = buffer + 1 /\ Wake
Get(t) == /\ t \notin waiting
          /\ IF buffer = 0 THEN waiting' = waiting \cup {t} /\ UNCHANGED buffer
                           ELSE buffer' = buffer - 1 /\ Wake
Next == (\E t \in Producers : Put(t)) \/ (\E t \in Consumers : Get(t))
Spec == Init /\ [][Next]_<<buffer, waiting>>
====
