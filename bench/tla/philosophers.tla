---- MODULE Philosophers ----
EXTENDS Naturals
\* may not end
CONSTANT N
VARIABLES philosopher, taken
P == 0..(N - 1)
Init == philosopher = [p \in P |-> "thinking"] /\ taken = [p \in P |-> FALSE]
First(p) == IF p < N - 1 THEN p ELSE 0
Second(p) == IF p < N - 1 THEN p + 1 ELSE p
TakeFirst(p) == /\ philosopher[p] = "thinking" /\ ~ taken[First(p)]
                /\ taken' = [taken EXCEPT ![First(p)] = TRUE]
                /\ philosopher' = [philosopher EXCEPT ![p] = "one fork"]
TakeSecond(p) == /\ philosopher[p] = "one fork" /\ ~ taken[Second(p)]
                 /\ taken' = [taken EXCEPT ![Second(p)] = TRUE]
                 /\ philosopher' = [philosopher EXCEPT ![p] = "eating"]
PutDown(p) == /\ philosopher[p] = "eating"
              /\ taken' = [taken EXCEPT ![First(p)] = FALSE, ![Second(p)] = FALSE]
              /\ philosopher' = [philosopher EXCEPT ![p] = "thinking"]
Next == \E p \in P : TakeFirst(p) \/ TakeSecond(p) \/ PutDown(p)
Spec == Init /\ [][Next]_<<philosopher, taken>>
Neighbours == \A p \in P : ~ (philosopher[p] = "eating" /\ philosopher[(p + 1) % N] = "eating")
====
