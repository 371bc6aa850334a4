---- MODULE TransactionCommit ----
CONSTANT Managers
VARIABLE manager
Init == manager = [m \in Managers |-> "working"]
Prepare(m) == manager[m] = "working" /\ manager' = [manager EXCEPT ![m] = "prepared"]
Commit(m) == /\ manager[m] = "prepared" /\ \A n \in Managers : manager[n] \in {"prepared", "committed"}
             /\ manager' = [manager EXCEPT ![m] = "committed"]
Abort(m) == /\ manager[m] \in {"working", "prepared"} /\ \A n \in Managers : manager[n] # "committed"
            /\ manager' = [manager EXCEPT ![m] = "aborted"]
Next == \E m \in Managers : Prepare(m) \/ Commit(m) \/ Abort(m)
Spec == Init /\ [][Next]_manager
Agreement == \A m, n \in Managers : ~ (manager[m] = "committed" /\ manager[n] = "aborted")
====
