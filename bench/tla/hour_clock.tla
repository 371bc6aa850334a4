---- MODULE HourClock ----
EXTENDS Naturals
\* may not end
VARIABLE hour
Init == hour \in 1..12
Next == hour' = (hour % 12) + 1
Spec == Init /\ [][Next]_hour
InRange == hour \in 1..12
====
